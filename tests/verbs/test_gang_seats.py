"""Seats of gangs against binds of other nodes and of other pods, over one real store."""

import contextlib
import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from app.domain import events, model
from app.framework import effects
from app.kube.objects import decoding
from app.kube.writes import binding
from app.plugins.coscheduling import gangs, membership, options
from app.plugins.coscheduling.plugin import Coscheduling
from app.simulation import populations
from app.simulation.apiserver import faults, objects
from app.store.server import embedded
from app.verbs import placement_releases
from tests.support.decisions import gang_effects
from tests.support.extender import bind_plays, replicas


def node(shop: replicas.Cluster, name: str, cpu: int) -> None:
    made = populations.node(name, {})
    made["status"]["allocatable"] = {"cpu": str(cpu), "pods": "110"}
    shop.api.objects.create("nodes", made)


def pod(shop: replicas.Cluster, name: str, cpu: int, gang: str = "", namespace: str = "shop") -> model.Pod:
    containers = [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": str(cpu)}}}]
    labels = {membership.SIGS_LABEL: gang} if gang else {}
    return shop.pod(name, labels, namespace=namespace, containers=containers)


def group(shop: replicas.Cluster, name: str, minimum: int, *, namespace: str = "shop", **given: str) -> None:
    notes = {f"{options.PREFIX}{key}": value for key, value in given.items()}
    metadata = {"namespace": namespace, "name": name, "annotations": notes}
    shop.api.objects.create("sigspodgroups", {"metadata": metadata, "spec": {"minMember": minimum}})


def kept(one: replicas.Replica, pod: model.Pod) -> str:
    (name,) = one.filter(pod).trace.kept
    return name


def seats(one: replicas.Replica) -> dict[str, str]:
    return {made.pod.name: made.node for made in one.snapshot().placements.values()}


def test_a_bind_to_a_node_without_capacity_does_not_cost_the_seat(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        for name in ("n1", "n2"):
            node(shop, name, 2)
        node(shop, "full", 1)
        group(shop, "g", 2)
        members = [pod(shop, f"g-{number}", 2, "g") for number in range(2)]
        shop.see()
        one = shop.replica(beside=(Coscheduling,))
        assert one.bind(members[0], kept(one, members[0])) == ""
        before = seats(one)
        assert one.bind(members[1], "full") != ""
        assert seats(one) == before


class Scene(NamedTuple):
    """Nodes with capacity for one pod each, a gang of two and another pod; the second replica is late."""

    members: list[model.Pod]
    other: model.Pod
    one: replicas.Replica
    late: replicas.Replica


@contextlib.contextmanager
def scene(url: str, cluster: str, *nodes: str) -> Iterator[Scene]:
    with replicas.cluster(url, cluster) as shop:
        for name in nodes:
            node(shop, name, 2)
        group(shop, "g", 2)
        members = [pod(shop, f"g-{number}", 2, "g") for number in range(2)]
        other = pod(shop, "other", 2)
        shop.see()
        one, late = (shop.replica(beside=(Coscheduling,)) for _ in range(2))
        late.context = replicas.with_state(late, replicas.Behind(late, looks=1))
        yield Scene(members, other, one, late)


def test_a_pod_does_not_take_the_capacity_of_a_seat_that_it_did_not_see(
    store_server: embedded.Server, cluster: str
) -> None:
    with scene(store_server.url, cluster, "n1", "n2") as (members, other, one, late):
        node_of_first = kept(one, members[0])
        assert one.bind(members[0], node_of_first) == ""
        (left,) = {"n1", "n2"} - {node_of_first}
        assert "reserved" in late.bind(other, left)
        assert seats(one)["g-1"] == left


def test_a_gang_is_not_planned_on_capacity_that_a_pod_has_just_taken(
    store_server: embedded.Server, cluster: str
) -> None:
    with scene(store_server.url, cluster, "n1", "n2") as (members, other, one, late):
        first = kept(one, members[0])
        (left,) = {"n1", "n2"} - {first}
        assert one.bind(other, left) == ""
        assert "no capacity for 2" in late.bind(members[0], first)


def test_only_the_nodes_that_others_have_written_about_are_checked_after_a_commitment(
    store_server: embedded.Server, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def filled(_: object, __: object, placement: model.Placement) -> bool:
        checked.append(placement.node)
        return False

    monkeypatch.setattr(placement_releases, "_filled", filled)
    with scene(store_server.url, cluster, "n1", "n2") as (members, other, one, late):
        first = kept(one, members[0])
        (left,) = {"n1", "n2"} - {first}
        assert one.bind(other, left) == ""
        late.bind(members[0], first)
        assert checked == [left]


def test_a_gang_of_another_namespace_is_not_placed_without_those_that_it_names(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        node(shop, "n1", 8)
        group(shop, "a", 1, groups=json.dumps(["shop/a", "b/b"]))
        group(shop, "b", 1, namespace="b", groups=json.dumps(["b/b", "b/c"]))
        group(shop, "c", 2, namespace="b", groups=json.dumps(["b/b", "b/c"]))
        mine = pod(shop, "a-0", 1, "a")
        theirs = pod(shop, "b-0", 1, "b", namespace="b")
        pod(shop, "c-0", 1, "c", namespace="b")
        shop.see()
        one = shop.replica(beside=(Coscheduling,))
        one.bind(mine, "n1")
        assert theirs.name not in seats(one)


def relabelled(found: objects.Json) -> objects.Json:
    """The pod with the mark of gang b."""
    found["metadata"]["labels"] = {membership.SIGS_LABEL: "b"}
    return found


@pytest.mark.parametrize("others", [1, 8])
def test_a_bind_does_not_use_the_seat_of_a_gang_that_the_pod_has_left(
    store_server: embedded.Server, cluster: str, others: int
) -> None:
    """The pod goes with its new gang, or waits with it until the controller releases the seat."""
    with replicas.cluster(store_server.url, cluster) as shop:
        node(shop, "n1", 4)
        group(shop, "a", 2)
        group(shop, "b", 1 + others)
        members = [pod(shop, f"a-{number}", 1, "a") for number in range(2)]
        for number in range(others):
            pod(shop, f"b-{number}", 1, "b")
        shop.see()
        one = shop.replica(beside=(Coscheduling,))
        assert one.bind(members[0], "n1") == ""
        shop.api.objects.change("pods", ("shop", "a-1"), relabelled)
        shop.see()
        before = one.snapshot().placements[members[1].uid]
        found = one.bind(members[1], "n1")
        after = one.snapshot().placements[members[1].uid]
        if others == 1:
            assert found == ""
            assert after.data[gangs.NAME] == {"gang": "sigs/shop/b", "minimum": 2}
            assert seats(one).keys() == {"a-1", "b-0"}
            # In one append: no other pod takes the capacity between a release and it.
            assert not any(isinstance(one, events.PlacementReleased) for one in shop.recorded())
        else:
            assert "gang sigs/shop/b: no capacity for 9 members together" in found
            assert after == before


@pytest.mark.parametrize(
    ("labels", "cause", "lost"),
    [
        ({membership.SIGS_LABEL: "b"}, "unbound", True),
        ({membership.SIGS_LABEL: ""}, "unbound", True),
        ({"version": "2"}, "superseded", False),
    ],
    ids=["another gang", "no gang", "its gang"],
)
def test_a_seat_is_lost_if_its_pod_goes_to_another_node_without_its_gang(
    store_server: embedded.Server, cluster: str, labels: dict[str, str], cause: str, lost: bool
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        node(shop, "n1", 2)
        group(shop, "a", 2)
        group(shop, "b", 1)
        members = [pod(shop, f"a-{number}", 1, "a") for number in range(2)]
        shop.see()
        one = shop.replica(beside=(Coscheduling,))
        shop.api.faults.add(faults.FaultKind.FAIL, faults.calls("POST", "/binding"), status=504)
        assert "not known" in one.bind(members[0], "n1")
        node(shop, "n2", 2)
        bind_plays.relabelled(shop, members[1], labels)
        shop.see()
        before, since = one.snapshot(), len(shop.recorded())
        assert one.bind(members[1], "n2") == ""
        happened = tuple(shop.recorded()[since:])
        assert [one.cause for one in happened if isinstance(one, events.PlacementReleased)] == [cause]
        found = list(Coscheduling().reconcile(one.snapshot(), effects.Changes(before, happened)))
        assert gang_effects.given_up(found) == ({members[0].uid} if lost else set())
        texts = [text for _, text in gang_effects.posted(found) if "is lost: the pod has left gang" in text]
        assert len(texts) == lost


@pytest.fixture
def noted() -> Iterator[None]:
    """The annotations of gangs are kept."""
    decoding.keep(frozenset(options.ANNOTATIONS))
    yield
    decoding.keep(frozenset())


@pytest.mark.usefixtures("noted")
@pytest.mark.parametrize("seated", [False, True], ids=["without a seat", "with a seat"])
def test_a_pod_is_not_judged_for_a_gang_that_only_the_memory_of_a_replica_has(
    store_server: embedded.Server, cluster: str, *, seated: bool
) -> None:
    """Its annotation names another one since, which is not compared. The former gang may admit it."""
    with replicas.cluster(store_server.url, cluster) as shop:

        def named(one: model.Pod, gang: str, minimum: int) -> None:
            def change(found: objects.Json) -> objects.Json:
                notes = {options.NAME: gang, options.MINIMUM: str(minimum)}
                found["metadata"]["annotations"] = notes
                return found

            shop.api.objects.change("pods", (one.namespace, one.name), change)

        node(shop, "n1", 4)
        moved, other = pod(shop, "p", 1), pod(shop, "b-0", 1)
        named(moved, "a", 1 if seated else 2)
        named(other, "b", 2)
        shop.see()
        one, second = (shop.replica(beside=(Coscheduling,)) for _ in range(2))
        one.offer(one.snapshot().pods[moved.uid])
        named(moved, "b", 2)
        shop.see()
        if seated:
            assert second.bind(other, "n1") == ""
        sent = len(shop.api.seen)
        assert one.bind(moved, "n1") == ""
        assert [request.method for request in shop.api.seen[sent:]] == ["GET", "POST"]
        committed = [event for event in shop.recorded() if isinstance(event, events.PlacementsCommitted)]
        seated_for = {gangs.committed_for(one) for event in committed for one in event.placements}
        assert seated_for == {membership.GangKey("koordinator", "shop", "b")}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_pod_that_leaves_its_gang_while_it_is_bound_is_decided_again(
    store_server: embedded.Server, cluster: str, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """The Binding names the version with the former labels, so that it cannot be carried out."""
    with replicas.cluster(store_server.url, cluster) as shop:
        node(shop, "n1", 4)
        group(shop, "a", 2)
        group(shop, "b", 2)
        members = [pod(shop, f"a-{number}", 1, "a") for number in range(2)]
        shop.see()
        one = shop.replica(beside=(Coscheduling,))
        bind = one.context.binder.bind
        sent: list[str] = []

        def late(
            namespace: str, name: str, uid: str, to: str, *, carried: binding.Carried, timeout: float
        ) -> binding.Outcome:
            if not sent:
                shop.api.objects.change("pods", ("shop", "a-0"), relabelled)
                if recorded:
                    shop.see()
            sent.append(name)
            return bind(namespace, name, uid, to, carried=carried, timeout=timeout)

        monkeypatch.setattr(one.context.binder, "bind", late)
        assert "gang sigs/shop/b: 1 of 2 members exist" in one.bind(members[0], "n1")
        assert len(sent) == 1
        assert seats(one).keys() == {"a-1"}
        assert shop.bound(members[0]) == ""


def test_the_minimum_of_an_inner_group_is_part_of_what_a_commitment_relies_on(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        node(shop, "n1", 8)
        metadata = {"namespace": "shop", "name": "w"}
        spec = {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 1}}}]}
        shop.api.objects.create("workloads", {"metadata": metadata, "spec": spec})
        ref = {"name": "w", "podGroup": "g"}
        containers = [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}]
        member = shop.pod("w-0", {}, containers=containers, workloadRef=ref)
        shop.see()
        late = shop.replica(beside=(Coscheduling,))
        first = kept(late, member)
        late.context = replicas.with_state(late, replicas.Behind(late, looks=1))

        def raised(found: objects.Json) -> objects.Json:
            found["spec"]["podGroups"][0]["policy"]["gang"]["minCount"] = 2
            return found

        shop.api.objects.change("workloads", ("shop", "w"), raised)
        shop.see()
        assert "1 of 2 members exist" in late.bind(member, first)
