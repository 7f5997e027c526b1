"""kube-scheduler's own gangs (gate GenericWorkload), placed by Topolog.

Two zones have room for one gang of six each. kube-scheduler filters the members of a group one after the
other, in domain after domain, and binds them at the same time.
"""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.since("1.37", "PodGroups in scheduling.k8s.io/v1beta1"),
]

NAMESPACE, ZONE, GPU = "native", "topology.kubernetes.io/zone", "example.com/gpu"
GROUPS = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
SIZE = 6


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A control plane with the gates of gangs."""
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    flags = ["--runtime-config=scheduling.k8s.io/v1beta1=true"]
    with clusters.Cluster(binary, flags=flags, feature_gates=gates) as made:
        made.start_controller_manager()
        made.start_kubelet()
        yield made


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    with installations.Installation(cluster, PLUGINS_ENABLED="*,Coscheduling") as installed:
        cluster.add_namespace(NAMESPACE)
        capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: "3"}
        for zone in "ab":
            cluster.add_nodes(f"{zone}1", f"{zone}2", labels={ZONE: zone}, capacity=capacity)
        installed.start_scheduler()
        yield installed


def create(cluster: clusters.Cluster, name: str, members: int = SIZE) -> None:
    spec: api_client.Object = {
        "schedulingPolicy": {"gang": {"minCount": SIZE}},
        "schedulingConstraints": {"topology": [{"key": ZONE}]},
    }
    body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    cluster.api().create(GROUPS, {**body, "spec": spec})
    for number in range(members):
        add_member(cluster, name, number)


def add_member(cluster: clusters.Cluster, name: str, number: int) -> None:
    pod = workloads.pod(NAMESPACE, f"{name}-{number}", gang=name)
    pod["spec"]["schedulingGroup"] = {"podGroupName": name}
    (container,) = pod["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}
    cluster.api().create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)


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
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    for name in ("one", "two"):
        create(cluster, name)
    polling.eventually(
        lambda: whole(cluster, "one", "two"), "two gangs run", within=60, seen=lambda: zones(cluster)
    )
    create(cluster, "three")
    path = f"/apis/v1/plugins/Coscheduling/gangs/{NAMESPACE}/three"
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
    assert shown["reason"] == f"gang native/{NAMESPACE}/three: no domain of {ZONE} has room for 6 members"
    assert whole(cluster, "one", "two")


def test_the_third_starts_whole_when_another_ends(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    for number in range(SIZE):
        cluster.api().delete(f"/api/v1/namespaces/{NAMESPACE}/pods/one-{number}")
    # kube-scheduler tries a group again by its own timer only.
    polling.eventually(
        lambda: whole(cluster, "two", "three"),
        "the third gang runs",
        within=120,
        seen=lambda: zones(cluster),
    )


def test_a_member_that_is_made_again_goes_back_to_the_zone_of_its_gang(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.api().delete(f"/api/v1/namespaces/{NAMESPACE}/pods/three-0")
    gone = f"/api/v1/namespaces/{NAMESPACE}/pods/three-0"
    polling.eventually(lambda: cluster.api().find(gone) is None, "the member is gone", within=30)
    add_member(cluster, "three", 0)
    polling.eventually(
        lambda: whole(cluster, "two", "three"), "it runs", within=60, seen=lambda: zones(cluster)
    )
