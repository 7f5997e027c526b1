"""What holds at rest: the log matches the cluster, and every reader has the state of the log."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.domain import model, snapshots
from app.kube.objects import decoding
from app.plugins.workload_policy import decoding as policy_decoding
from tests.support import declared
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import guarantees, plain_fold, plain_quotas


def check_cluster(fold: plain_fold.Fold, cluster: cluster_objects.Cluster) -> None:
    """Raises Broken unless the log matches the cluster, and no placement is in flight."""
    pods = {pod.uid: pod for pod in (decoding.pod(_bytes(made)) for made in cluster.all("pods"))}
    nodes = {node.name: node for node in (decoding.node(_bytes(made)) for made in cluster.all("nodes"))}
    policies = {
        policy.key: policy
        for policy in (policy_decoding.policy(_bytes(made)) for made in cluster.all("workloadpolicies"))
    }
    _match("pods", fold.pods, pods)
    _match("nodes", fold.nodes, nodes)
    _match("policies", fold.policies, policies)
    for kind in declared.SCHEMA.kinds:
        uids = {key: one["uid"] for key, one in fold.objects.get(kind.name, {}).items()}
        _match(kind.name, uids, {key: made["metadata"]["uid"] for key, made in _all(cluster, kind.name)})
    for name, quotas in (("elasticquotas", fold.quotas), ("sigselasticquotas", fold.namespace_quotas)):
        specified = {key: _cores(one) for key, one in quotas.items()}
        _match(name, specified, {key: made["spec"] for key, made in _all(cluster, name)})
    groups = {key: (minimum, key in fold.wholes) for key, minimum in fold.groups.items()}
    _match("groups", groups, _groups(cluster))
    _match("budgets", {key: _kept_budget(one) for key, one in fold.budgets.items()}, _budgets(cluster))
    guarantees.demand(not fold.placements, "P8", f"in flight forever: {sorted(fold.placements)}")
    guarantees.demand(not fold.unlisted, "P8", f"never listed again after a loss: {sorted(fold.unlisted)}")
    if cluster_objects.POLICY in {policy.name for policy in policies.values()}:
        prefix = f"{cluster_objects.NAMESPACE}/{cluster_objects.POLICY}|{cluster_objects.KEY}="
        counted = {key.removeprefix(prefix): n for key, n in fold.counts().items() if key.startswith(prefix)}
        guarantees.demand(counted == cluster.usage(), "P8", f"{counted}, the cluster has {cluster.usage()}")


def check_reader(snapshot: snapshots.Snapshot, fold: plain_fold.Fold) -> None:
    """Raises Broken unless a reader at the head of the log has its state, from whatever checkpoint."""
    at = f"a reader at {snapshot.position}"
    guarantees.demand(snapshot.offset == fold.offset, "P1", f"{at}, the log ends at {fold.offset}")
    guarantees.demand(dict(snapshot.pods) == fold.pods, "P14", f"{at}: pods differ")
    guarantees.demand(dict(snapshot.nodes) == fold.nodes, "P14", f"{at}: nodes differ")
    for kind in declared.SCHEMA.kinds:
        held = {key: msgspec.json.decode(_bytes(one)) for key, one in snapshot.all(kind).items()}
        logged = fold.objects.get(kind.name, {})
        text = f"{at}: {kind.name} differ: {_difference(held, logged)}"
        guarantees.demand(held == logged, "P14", text)
    guarantees.demand(not snapshot.placements, "P14", f"{at}: placements differ")
    guarantees.demand(dict(snapshot.counts) == fold.counts(), "P14", f"{at}: counts differ")
    guarantees.demand(dict(snapshot.versions) == fold.versions, "P14", f"{at}: versions differ")


def _groups(cluster: cluster_objects.Cluster) -> dict[str, tuple[int, bool]]:
    """``namespace/name`` of a PodGroup -> its minimum, and whether it is disrupted as a whole."""
    found = {key: (made["spec"]["minMember"], False) for key, made in _all(cluster, "sigspodgroups")}
    for key, made in _all(cluster, "nativepodgroups"):
        minimum = made["spec"]["schedulingPolicy"]["gang"]["minCount"]
        found[key] = minimum, "all" in made["spec"]["disruptionMode"]
    return found


def _budgets(cluster: cluster_objects.Cluster) -> dict[str, tuple[object, ...]]:
    """``namespace/name`` of a PodDisruptionBudget -> labels, allowed evictions, and pods counted already."""
    return {
        key: (
            made["spec"]["selector"]["matchLabels"],
            made["status"]["disruptionsAllowed"],
            sorted(made["status"].get("disruptedPods") or {}),
        )
        for key, made in _all(cluster, "poddisruptionbudgets")
    }


def _kept_budget(found: Mapping[str, Any]) -> tuple[object, ...]:
    """The same of a budget of the log."""
    return found["selector"]["labels"], found.get("allowed", 0), found.get("disrupted", [])


def _cores(quota: plain_quotas.Quota) -> dict[str, dict[str, int]]:
    """The specification of a quota, in whole cores."""
    return {part: {"cpu": quota.get(part, {}).get("cpu", 0) // 1000} for part in ("min", "max")}


def _all(cluster: cluster_objects.Cluster, resource: str) -> list[tuple[str, cluster_objects.Json]]:
    """Each object, with its identity in the log."""
    found = ((made["metadata"], made) for made in cluster.all(resource))
    return [(model.key(meta.get("namespace", ""), meta["name"]), made) for meta, made in found]


def _bytes(made: object) -> bytes:
    return msgspec.json.encode(made)


def _match(what: str, have: Mapping[str, object], want: Mapping[str, object]) -> None:
    guarantees.demand(have == want, "P8", f"{what} differ: {_difference(have, want)}")


def _difference(have: Mapping[str, object], want: Mapping[str, object]) -> str:
    named = sorted(key for key in have.keys() | want.keys() if have.get(key) != want.get(key))
    return "; ".join(f"{key}: {have.get(key)}, not {want.get(key)}" for key in named[:3])
