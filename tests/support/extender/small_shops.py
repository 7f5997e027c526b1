"""Nodes, quotas and pods at the API server of a cluster of replicas, and what happens there meanwhile."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from app.domain import model
from app.plugins.elastic_quota.trees import membership
from app.simulation import populations
from app.simulation.apiserver import objects
from tests.support.extender import replicas

NO_LABELS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def nodes(
    shop: replicas.Cluster, names: Collection[str], labels: Mapping[str, Mapping[str, str]] = NO_LABELS
) -> None:
    """Create nodes of 100 cores; ``labels``: by node."""
    for name in names:
        made = populations.node(name, dict(labels.get(name, {})))
        made["status"]["allocatable"] = {"cpu": "100", "memory": "1Ti", "pods": "110"}
        shop.api.objects.create("nodes", made)


def quota(shop: replicas.Cluster, name: str, most: int, *, parent: str = "", is_parent: bool = False) -> None:
    """Create a quota of Koordinator's form; ``most``: cores."""
    labels = {"quota.scheduling.koordinator.sh/is-parent": str(is_parent).lower()}
    if parent:
        labels["quota.scheduling.koordinator.sh/parent"] = parent
    amounts = {"min": {"cpu": 0}, "max": {"cpu": most, "memory": "1Ti"}}
    metadata = {"namespace": "quotas", "name": name, "labels": labels}
    shop.api.objects.create("elasticquotas", {"metadata": metadata, "spec": amounts})


def namespace_quota(shop: replicas.Cluster, namespace: str, least: int, most: int) -> None:
    """Create a quota of the form of kubernetes-sigs; ``least`` and ``most``: cores."""
    amounts = {"min": {"cpu": least, "memory": "1Ti"}, "max": {"cpu": most}}
    metadata = {"namespace": namespace, "name": "quota"}
    shop.api.objects.create("sigselasticquotas", {"metadata": metadata, "spec": amounts})


def pod(
    shop: replicas.Cluster,
    name: str,
    quota: str = "",
    *,
    cpu: int = 1,
    namespace: str = replicas.NAMESPACE,
) -> model.Pod:
    """Create a pod of so many cores and 1 GiB, which names the quota, or none if it is empty."""
    requests = {"cpu": str(cpu), "memory": "1Gi"}
    containers = [{"name": "c", "image": "app:1", "resources": {"requests": requests}}]
    labels = {membership.LABEL: quota} if quota else {}
    return shop.pod(name, labels, namespace=namespace, containers=containers)


def cordon(shop: replicas.Cluster, *names: str, cordoned: bool = True) -> None:
    """Cordon the nodes, or uncordon them."""

    def change(node: objects.Json) -> objects.Json:
        node["spec"]["unschedulable"] = cordoned
        return node

    for name in names:
        shop.api.objects.change("nodes", ("", name), change)


def while_waiting(one: replicas.Replica, *happens: Callable[[], object]) -> replicas.Replica:
    """The replica, for which one thing after the other happens when it waits for the log."""
    one.clock.passes, coming = True, list(happens)

    def sleep(seconds: float) -> None:
        one.clock.sleep(seconds)
        if coming:
            coming.pop(0)()

    return dataclasses.replace(one, context=dataclasses.replace(one.context, sleep=sleep))
