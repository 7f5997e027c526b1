"""A cluster with the gates of kube-scheduler's own gangs: two zones with six GPUs each, and Topolog."""

import contextlib
import pathlib
from collections.abc import Iterator

from tests.support.e2e import api_client, clusters, installations, native_groups, workloads

ZONE, GPU = "topology.kubernetes.io/zone", "example.com/gpu"


@contextlib.contextmanager
def cluster(binary: pathlib.Path, form: native_groups.Form) -> Iterator[clusters.Cluster]:
    """The control plane, its controllers and a kubelet, without nodes and without a kube-scheduler."""
    with clusters.Cluster(binary, flags=form.flags, feature_gates=form.gates) as made:
        made.start_controller_manager()
        made.start_kubelet()
        yield made


@contextlib.contextmanager
def topolog(cluster: clusters.Cluster, namespace: str) -> Iterator[installations.Installation]:
    """Topolog with the plugin Coscheduling, the namespace, and the nodes of both zones."""
    with installations.Installation(cluster, PLUGINS_ENABLED="*,Coscheduling") as installed:
        cluster.add_namespace(namespace)
        capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: "3"}
        for zone in "ab":
            cluster.add_nodes(f"{zone}1", f"{zone}2", labels={ZONE: zone}, capacity=capacity)
        yield installed


def add_member(
    cluster: clusters.Cluster, form: native_groups.Form, namespace: str, gang: str, number: int
) -> api_client.Object:
    """Create a member of a gang that requests one GPU; returns the pod as the API server stored it."""
    pod = workloads.pod(namespace, f"{gang}-{number}", gang=gang)
    form.mark(pod, gang)
    (container,) = pod["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}
    created: api_client.Object = cluster.api().create(f"/api/v1/namespaces/{namespace}/pods", pod)
    return created
