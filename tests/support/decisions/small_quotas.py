"""Small trees of quotas; amounts of cpu in cores."""

from collections.abc import Mapping

import msgspec

from app.domain import model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.trees import forests, membership, runtimes, usage
from tests.support.decisions import scheduling_driver

CORE = 1000
GIB = 2**30


def quota(
    name: str,
    least: int = 0,
    most: int = 1000,
    *,
    weight: int | None = None,
    parent: str = "",
    is_parent: bool = False,
    namespace: str = "quotas",
    created: str = "2026-01-01T00:00:00Z",
    **changed: object,
) -> Quota:
    """A quota of cores; its weight is its max unless given."""
    made = Quota(
        uid=f"uid-{namespace}-{name}",
        namespace=namespace,
        name=name,
        min={"cpu": least * CORE},
        max={"cpu": most * CORE},
        weight={} if weight is None else {"cpu": weight},
        parent=parent,
        is_parent=is_parent,
        created=created,
    )
    return msgspec.structs.replace(made, **changed)


def of_cpu(
    total: int,
    requests: Mapping[str, int],
    *quotas: Quota,
    used: Mapping[str, int] | None = None,
    scale: bool = True,
    guarantee: bool = False,
) -> runtimes.Runtimes:
    """The runtimes of the default tree; requests and use in cores."""
    tree = forests.grown(quotas).trees[""]
    return runtimes.derive(
        tree,
        {"cpu": total * CORE},
        columns(tree, {name: {"cpu": cores * CORE} for name, cores in requests.items()}),
        columns(tree, {name: {"cpu": cores * CORE} for name, cores in (used or {}).items()}),
        runtimes.RuntimeRules(scale=scale, guarantee=guarantee),
    )


def columns(tree: forests.Tree, amounts: Mapping[str, Mapping[str, int]]) -> dict[str, list[int]]:
    """Quota -> resource -> amount, in the form that ``runtimes.derive`` reads."""
    return {
        resource: [amounts.get(name, {}).get(resource, 0) for name in tree.names]
        for resource in tree.resources
    }


def cores(found: runtimes.Runtimes) -> dict[str, float]:
    """Quota -> runtime in cores."""
    return {name: found.runtime(name)["cpu"] / CORE for name in found.tree.names}


def node(name: str, cpu: int, memory: int = 0, **changed: object) -> model.Node:
    """A node of so many cores and GiB."""
    amounts = {"cpu": cpu * CORE, **({"memory": memory * GIB} if memory else {})}
    made = model.Node(name=name, uid=f"uid-{name}", allocatable=amounts, ready=True)
    return msgspec.structs.replace(made, **changed)


def pod(
    name: str,
    cpu: int = 1,
    quota: str = "",
    *,
    node: str = "",
    memory: int = 0,
    firm: bool = False,
    namespace: str = "apps",
    **changed: object,
) -> model.Pod:
    """A pod that requests cores and GiB and names its quota; running if ``node`` is given."""
    labels = {membership.LABEL: quota} if quota else {}
    if firm:
        labels[membership.PREEMPTIBLE] = "false"
    made = model.Pod(
        uid=f"uid-{namespace}-{name}",
        namespace=namespace,
        name=name,
        labels=labels,
        requests={"cpu": cpu * CORE, **({"memory": memory * GIB} if memory else {})},
        node=node,
        phase="Running" if node else "Pending",
        created="2026-01-01T00:00:00Z",
    )
    return msgspec.structs.replace(made, **changed)


def cluster(*things: scheduling_driver.Thing, **arguments: bool | str) -> scheduling_driver.Cluster:
    """A cluster in which ElasticQuota alone decides."""
    return scheduling_driver.Cluster(*things, configured=[msgspec.convert(arguments, ElasticQuota)])


def runtime(small: scheduling_driver.Cluster, name: str, resource: str = "cpu") -> float:
    """A runtime in cores."""
    grown = usage.forest(small.snapshot)
    found = usage.of_tree(small.snapshot, grown.quotas[name].tree, runtimes.DEFAULTS)
    return found.runtimes.runtime(name)[resource] / CORE


def check(small: scheduling_driver.Cluster) -> None:
    """Assert that the counts equal those of a fold from the start, in another order."""
    assert dict(small.snapshot.counts) == dict(scheduling_driver.recounted(small.snapshot).counts)
