"""Groups of kube-scheduler's own gangs, in the form of the version of Kubernetes under test.

1.35 has Workloads whose groups a pod names, 1.36 has PodGroups, and 1.37 has them in another version of the
API.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.e2e import api_client, clusters

GROUP = "scheduling.k8s.io"
GATE = "GenericWorkload"
_OF_A_WORKLOAD = "workers"


@dataclass(frozen=True, slots=True)
class Form:
    """How one version of Kubernetes spells a gang."""

    version: str
    """Of the API, such as ``v1beta1``."""
    gates: Mapping[str, bool]
    """Feature gates, for every part."""
    has_pod_groups: bool = True
    """Else a pod names a group of a Workload, and no group has a topology key."""

    @property
    def flags(self) -> list[str]:
        """What the API server needs to serve the kind."""
        return [f"--runtime-config={GROUP}/{self.version}=true"]

    def path(self, namespace: str) -> str:
        """Where the objects of a namespace are."""
        resource = "podgroups" if self.has_pod_groups else "workloads"
        return f"/apis/{GROUP}/{self.version}/namespaces/{namespace}/{resource}"

    def create(
        self, cluster: clusters.Cluster, namespace: str, name: str, *, minimum: int, key: str = ""
    ) -> None:
        """Create a gang; ``key``: the label of the one domain that it is kept in, if the version has that."""
        policy = {"gang": {"minCount": minimum}}
        kind, spec = "PodGroup", api_client.Object(schedulingPolicy=policy)
        if not self.has_pod_groups:
            kind, spec = "Workload", {"podGroups": [{"name": _OF_A_WORKLOAD, "policy": policy}]}
        elif key:
            spec["schedulingConstraints"] = {"topology": [{"key": key}]}
        body = {
            "apiVersion": f"{GROUP}/{self.version}",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        cluster.api().create(f"{self.path(namespace)}?fieldValidation=Strict", body)

    def mark(self, pod: api_client.Object, name: str) -> None:
        """Make a pod a member of a gang."""
        if self.has_pod_groups:
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
        else:
            pod["spec"]["workloadRef"] = {"name": name, "podGroup": _OF_A_WORKLOAD}

    def marked(self, pod: api_client.Object) -> bool:
        """Whether the API server kept the mark."""
        return ("schedulingGroup" if self.has_pod_groups else "workloadRef") in pod["spec"]

    def shown(self, name: str) -> str:
        """The gang's name in Topolog."""
        return name if self.has_pod_groups else f"{name}:{_OF_A_WORKLOAD}"


def form(minor: tuple[int, int]) -> Form:
    """The form of a version of Kubernetes, which is 1.35 or later."""
    if minor <= (1, 35):
        return Form("v1alpha1", {GATE: True, "GangScheduling": True}, has_pod_groups=False)
    topology = {GATE: True, "TopologyAwareWorkloadScheduling": True}
    if minor == (1, 36):
        return Form("v1alpha2", topology | {"GangScheduling": True, "WorkloadAwarePreemption": True})
    return Form("v1beta1", topology)
