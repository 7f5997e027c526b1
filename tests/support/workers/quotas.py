"""Pods in quotas of a simulated cluster, and what a controller evicts of them."""

from collections.abc import Mapping
from types import MappingProxyType

from app import clocks, plugins
from app.framework import registry, registry_builder
from app.plugins.elastic_quota.trees import membership
from app.simulation import populations
from tests.support.workers import clusters


class FastClock(clocks.RealClock):
    """Twenty seconds of the controller are one of the test."""

    def monotonic(self) -> float:
        return super().monotonic() * 20


def configured(**arguments: str | bool) -> registry.Registry:
    """The plugins of quotas and gangs; the arguments are those of ElasticQuota."""
    return registry_builder.build(
        plugins.IN_TREE,
        enabled=("ElasticQuota", "Coscheduling"),
        weights={},
        score_max=10,
        args={"ElasticQuota": arguments},
    )


def quota(cluster: clusters.Cluster, name: str, least: str, most: str) -> None:
    metadata = {"namespace": "quotas", "name": name}
    spec = {"min": {"cpu": least}, "max": {"cpu": most}}
    cluster.server.objects.create("elasticquotas", {"metadata": metadata, "spec": spec})


def pod(
    cluster: clusters.Cluster,
    name: str,
    of: str,
    cpu: str,
    *,
    priority: int = 0,
    node: str = "n",
    labels: Mapping[str, str] = MappingProxyType({}),
) -> None:
    made = populations.pod("ns", name, {membership.LABEL: of, **labels}, node=node, cpu=cpu)
    made["spec"]["priority"] = priority
    if node:
        made["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    cluster.server.objects.create("pods", made)


def refuse(cluster: clusters.Cluster, name: str, of: str) -> None:
    """Set the condition that kube-scheduler sets after the quota has refused the pod."""
    cluster.refuse(name, f"0/1 nodes are available: 1 elastic quota {of}: no capacity in cpu.")


def evicted(cluster: clusters.Cluster) -> list[str]:
    """The pods whose eviction was requested, in order."""
    return [one.path.split("/")[-2] for one in cluster.server.seen if one.path.endswith("/eviction")]


def terminating(cluster: clusters.Cluster) -> set[str]:
    return {
        one["metadata"]["name"]
        for one in cluster.server.objects.all("pods")
        if "deletionTimestamp" in one["metadata"]
    }


def full(cluster: clusters.Cluster) -> None:
    """A quota of 4 cores in use by a firm pod, two victims of 1 core and an important one; one that waits."""
    cluster.node("n")
    quota(cluster, "team", "1", "4")
    pod(cluster, "firm", "team", "1", labels={membership.PREEMPTIBLE: "false"})
    pod(cluster, "low", "team", "1", priority=1)
    pod(cluster, "lowest", "team", "1")
    pod(cluster, "important", "team", "1", priority=100)
    pod(cluster, "asks", "team", "2", priority=100, node="")
    refuse(cluster, "asks", "team")
