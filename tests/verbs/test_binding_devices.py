"""What a plugin assigns to a pod counts from its placement on: no device is given to two pods."""

from collections.abc import Iterator

import pytest

from app.domain import model
from app.kube.objects import decoding
from app.store.server import embedded
from app.verbs.questions import simulated_placements
from tests.support import declared
from tests.support.decisions import devices
from tests.support.extender import replicas
from tests.support.store import materialised

NODES = frozenset(("g1",))


@pytest.fixture
def shop(
    store_server: embedded.Server, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[replicas.Cluster]:
    """A node with two devices, in a cluster whose schema counts them."""
    monkeypatch.setattr(declared, "SCHEMA", devices.SCHEMA)
    decoding.keep(frozenset((devices.ASSIGNED,)))
    with replicas.cluster(store_server.url, cluster) as made:
        made.node("g1", devices="2")
        made.see()
        yield made
    decoding.keep(frozenset())


@pytest.fixture
def pods(shop: replicas.Cluster) -> list[model.Pod]:
    found = [shop.pod(name, {devices.WANTED: "1"}) for name in "abc"]
    shop.see()
    return found


def replica(shop: replicas.Cluster) -> replicas.Replica:
    return shop.replica(beside=(devices.Devices,))


def counts(one: replicas.Replica) -> dict[str, int]:
    """Those of the fold, which the store and a recount from the log must agree on."""
    found = dict(one.snapshot().counts)
    assert materialised.counts(one.store) == found
    return found


BOTH = {devices.key("g1", device): 1 for device in range(2)}


def test_two_devices_are_given_to_two_pods_before_the_watch_shows_them(
    shop: replicas.Cluster, pods: list[model.Pod]
) -> None:
    one = replica(shop)
    assert [one.bind(pod, "g1") for pod in pods] == ["", "", f"topolog: {devices.FULL}"]
    assert sorted(shop.annotations(pod)[devices.ASSIGNED] for pod in pods[:2]) == ["0", "1"]
    assert counts(one) == BOTH
    shop.see()
    assert not one.snapshot().placements
    assert counts(one) == BOTH
    shop.delete(pods[0])
    shop.see()
    assert one.bind(pods[2], "g1") == ""
    assert shop.annotations(pods[2])[devices.ASSIGNED] == "0"


def test_a_replica_that_is_behind_gets_the_other_device(
    shop: replicas.Cluster, pods: list[model.Pod]
) -> None:
    """The ceiling of the device refuses its append."""
    one, other = replica(shop), replica(shop)
    behind = replicas.Behind(other)
    assert one.bind(pods[0], "g1") == ""
    late = replicas.Replica(
        replicas.with_state(other, behind), other.store, other.clock, other.api, other.fencer
    )
    assert late.bind(pods[1], "g1") == ""
    assert [shop.annotations(pod)[devices.ASSIGNED] for pod in pods[:2]] == ["0", "1"]
    assert counts(one) == BOTH


def test_a_released_placement_returns_its_device(shop: replicas.Cluster, pods: list[model.Pod]) -> None:
    one = replica(shop)
    assert one.bind(pods[0], "g1") == ""
    shop.delete(pods[0])
    shop.see()
    assert counts(one) == {}


def test_a_simulation_gives_each_pod_the_device_that_its_bind_would(
    shop: replicas.Cluster, pods: list[model.Pod]
) -> None:
    one = replica(shop)
    before, plugins = one.snapshot(), one.context.plugins
    found = simulated_placements.several(before, [pod.uid for pod in pods], NODES, plugins, lambda: True)
    assert [placed.node for placed in found.results] == ["g1", "g1", ""]
    assert devices.FULL in found.results[2].reason
    assert {change.count: change.after for change in found.counts} == BOTH
    # As it is once the pods are bound.
    assert [one.bind(pod, "g1") for pod in pods[:2]] == ["", ""]
    shop.see()
    bound = one.snapshot()
    assert [bound.pods[pod.uid].annotations for pod in pods] == [
        found.snapshot.pods[pod.uid].annotations for pod in pods
    ]
