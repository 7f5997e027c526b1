"""kube-scheduler's own gangs (gate GenericWorkload), in the form of each version, placed by Topolog.

Two zones have capacity for one gang of six each. kube-scheduler filters the members of a group one after the
other, in domain after domain, and binds them at the same time. In 1.35 each member has an attempt of its own,
and no group has a topology key: Topolog keeps the gang in the smallest domain that has capacity for it.
"""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import (
    clusters,
    gang_witness,
    installations,
    native_groups,
    native_worlds,
    workloads,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.since("1.35", "gangs"),
]

NAMESPACE = "native"
SIZE = 6
IN_PART = 10.0
"""Seconds within which a gang that is bound in part is bound whole."""
WINDOW = 15.0
"""Seconds for which calls are counted."""


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path, form: native_groups.Form) -> Iterator[clusters.Cluster]:
    """A control plane with the gates of gangs."""
    with native_worlds.cluster(binary, form) as made:
        yield made


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    with native_worlds.topolog(cluster, NAMESPACE) as installed:
        installed.start_scheduler()
        yield installed


def create(cluster: clusters.Cluster, form: native_groups.Form, name: str) -> None:
    form.create(cluster, NAMESPACE, name, minimum=SIZE, key=native_worlds.ZONE)
    for number in range(SIZE):
        add_member(cluster, form, name, number)


def add_member(cluster: clusters.Cluster, form: native_groups.Form, name: str, number: int) -> None:
    native_worlds.add_member(cluster, form, NAMESPACE, name, number)


def zones(cluster: clusters.Cluster) -> dict[str, list[str]]:
    """Gang -> the zones of its members that run."""
    found: dict[str, list[str]] = {}
    for pod in workloads.running(cluster, NAMESPACE):
        found.setdefault(pod["metadata"]["labels"]["gang"], []).append(pod["spec"]["nodeName"][0])
    return found


def whole(cluster: clusters.Cluster, *names: str) -> bool:
    """These gangs run whole, each in a zone of its own, and no other pod does."""
    found = zones(cluster)
    sizes = {name: (len(where), len(set(where))) for name, where in found.items()}
    apart = len({where[0] for where in found.values()}) == len(found)
    return apart and sizes == dict.fromkeys(names, (SIZE, 1))


def test_two_gangs_take_a_zone_each_and_the_third_waits_whole(
    cluster: clusters.Cluster, topolog: installations.Installation, form: native_groups.Form
) -> None:
    with gang_witness.Overseer(cluster.api(), NAMESPACE, "gang", SIZE) as seen:
        for name in ("one", "two"):
            create(cluster, form, name)
        polling.eventually(
            lambda: whole(cluster, "one", "two"), "two gangs run", within=60, seen=lambda: zones(cluster)
        )
    assert set(seen.partial) == {"one", "two"}
    assert seen.longest() < IN_PART * polling.PATIENCE, seen.partial
    create(cluster, form, "three")
    path = f"/apis/v1/plugins/Coscheduling/gangs/{NAMESPACE}/{form.shown('three')}"
    polling.eventually(
        lambda: (
            (topolog.find(path) or {}).get("pendingChildren", []) != []
            and topolog.ask(path)["members"] == SIZE
        ),
        "the third gang is known",
        within=30,
    )
    shown = topolog.ask(path)
    assert (shown["family"], shown["gangFrom"], shown["state"]) == ("native", "GangFromNative", "waiting")
    assert f"gang native/{NAMESPACE}/{form.shown('three')}: " in shown["reason"]
    if form.has_pod_groups:
        assert shown["reason"].endswith(f"no domain of {native_worlds.ZONE} has capacity for 6 members")
    assert shown["missing"].startswith("0 of 6 seats")
    assert whole(cluster, "one", "two")


def test_a_gang_that_waits_costs_two_calls_a_second_at_most(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """kube-scheduler tries it by its own timer, here for a node with capacity for half of it."""
    capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", native_worlds.GPU: "3"}
    cluster.add_nodes("c1", labels={native_worlds.ZONE: "c"}, capacity=capacity)
    calls, seconds = topolog.measure_calls(f"{NAMESPACE}/three-", WINDOW)
    assert calls <= 2 * seconds
    assert whole(cluster, "one", "two")
    cluster.kubectl("delete", "node", "c1")


def test_the_third_starts_whole_when_another_ends(
    cluster: clusters.Cluster, topolog: installations.Installation, form: native_groups.Form
) -> None:
    with gang_witness.Overseer(cluster.api(), NAMESPACE, "gang", SIZE) as seen:
        for number in range(SIZE):
            cluster.api().delete(f"/api/v1/namespaces/{NAMESPACE}/pods/one-{number}")
        # kube-scheduler tries a group again by its own timer only.
        polling.eventually(
            lambda: whole(cluster, "two", "three"),
            "the third gang runs",
            within=120,
            seen=lambda: zones(cluster),
        )
    assert seen.partial["three"] < IN_PART * polling.PATIENCE, seen.partial


def test_a_member_that_is_made_again_goes_back_to_the_zone_of_its_gang(
    cluster: clusters.Cluster, topolog: installations.Installation, form: native_groups.Form
) -> None:
    cluster.api().delete(f"/api/v1/namespaces/{NAMESPACE}/pods/three-0")
    gone = f"/api/v1/namespaces/{NAMESPACE}/pods/three-0"
    polling.eventually(lambda: cluster.api().find(gone) is None, "the member is gone", within=30)
    add_member(cluster, form, "three", 0)
    polling.eventually(
        lambda: whole(cluster, "two", "three"), "it runs", within=60, seen=lambda: zones(cluster)
    )
