"""Gangs of four members that request a GPU each, in one namespace, and the nodes that they get.

A group is kube-scheduler's own, or one of kubernetes-sigs. Two zones have two nodes with three GPUs each.
"""

from collections.abc import Sequence

from tests.support import polling
from tests.support.e2e import clusters, workloads

NAMESPACE, ZONE, GPU = "sequences", "topology.kubernetes.io/zone", "example.com/gpu"
V1BETA1 = "scheduling.k8s.io/v1beta1"
NATIVE = f"/apis/{V1BETA1}/namespaces/{NAMESPACE}"
SIGS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
STRICT = "?fieldValidation=Strict"
SIZE, GPUS, CAPACITY = 4, 3, 12


def create_group(cluster: clusters.Cluster, name: str, **spec: object) -> None:
    """A group of kube-scheduler's own; ``spec``: what differs from a gang of SIZE."""
    body = {"apiVersion": V1BETA1, "kind": "PodGroup", "metadata": {"name": name}}
    policy = {"schedulingPolicy": {"gang": {"minCount": SIZE}}}
    cluster.api().create(f"{NATIVE}/podgroups{STRICT}", {**body, "spec": policy | spec})


def create_sigs_group(cluster: clusters.Cluster, name: str) -> None:
    """A group of kubernetes-sigs with the minimum SIZE."""
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    cluster.api().create(SIGS, {**kind, "metadata": {"name": name}, "spec": {"minMember": SIZE}})


def add_pod(
    cluster: clusters.Cluster, name: str, *, gpus: int = 1, priority: str = "", **labels: str
) -> None:
    """A pod without a group."""
    create_pod(cluster, name, "", gpus, priority, labels)


def add_members(
    cluster: clusters.Cluster,
    gang: str,
    numbers: Sequence[int] = range(SIZE),
    *,
    native: bool = True,
    sigs: bool = False,
    priority: str = "",
) -> None:
    labels = {"gang": gang} | ({"scheduling.x-k8s.io/pod-group": gang} if sigs else {})
    for number in numbers:
        create_pod(cluster, f"{gang}-{number}", gang if native else "", 1, priority, labels)


def create_pod(
    cluster: clusters.Cluster, name: str, group: str, gpus: int, priority: str, labels: dict[str, str]
) -> None:
    pod = workloads.pod(NAMESPACE, name)
    pod["metadata"]["labels"] = labels
    if group:
        pod["spec"]["schedulingGroup"] = {"podGroupName": group}
    if priority:
        pod["spec"]["priorityClassName"] = priority
    (container,) = pod["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1", GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    cluster.api().create(f"{PODS}{STRICT}", pod)


def remove(cluster: clusters.Cluster, *names: str) -> None:
    for name in names:
        cluster.api().delete(f"{PODS}/{name}", grace=0)
    polling.eventually(
        lambda: not {workloads.name(pod) for pod in cluster.pods(NAMESPACE)} & set(names),
        "they are gone",
        within=30,
    )


def nodes(cluster: clusters.Cluster, gang: str) -> list[str]:
    """The nodes of members that are bound, by the API server."""
    found = (pod["spec"].get("nodeName", "") for pod in cluster.pods(NAMESPACE, labels=f"gang={gang}"))
    return sorted(filter(None, found))


def await_bound(cluster: clusters.Cluster, gang: str, size: int = SIZE, *, within: float = 90) -> None:
    polling.eventually(
        lambda: len(nodes(cluster, gang)) == size,
        f"{size} members of {gang} are bound",
        within=within,
        seen=lambda: [pod["status"] for pod in cluster.pods(NAMESPACE, labels=f"gang={gang}")],
    )


def await_whole(cluster: clusters.Cluster, gang: str, size: int = SIZE, *, within: float = 90) -> None:
    """Wait until the members are bound: in one zone, if they fit there."""
    await_bound(cluster, gang, size, within=within)
    assert len({node[0] for node in nodes(cluster, gang)}) == 1 or size > GPUS * 2
