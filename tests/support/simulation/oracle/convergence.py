"""What holds at rest: the log matches the cluster, and every reader has the state of the log."""

import msgspec

from app.domain import model, snapshots
from app.kube.objects import decoding
from app.plugins.workload_policy import decoding as policy_decoding
from app.plugins.workload_policy import policy_model
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
    guarantees.demand(fold.pods == pods, "P8", f"pods differ: {_difference(fold.pods, pods)}")
    guarantees.demand(fold.nodes == nodes, "P8", f"nodes differ: {_difference(fold.nodes, nodes)}")
    guarantees.demand(
        fold.policies == policies, "P8", f"policies differ: {_difference(fold.policies, policies)}"
    )
    quotas = {one["name"]: _cores(one) for one in fold.quotas.values()}
    wanted = {made["metadata"]["name"]: made["spec"] for made in cluster.all("elasticquotas")}
    guarantees.demand(quotas == wanted, "P8", f"quotas differ: log {quotas}, cluster {wanted}")
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
    guarantees.demand(declared.policies(snapshot) == fold.policies, "P14", f"{at}: policies differ")
    guarantees.demand(not snapshot.placements, "P14", f"{at}: placements differ")
    guarantees.demand(dict(snapshot.counts) == fold.counts(), "P14", f"{at}: counts differ")
    guarantees.demand(dict(snapshot.versions) == fold.versions, "P14", f"{at}: versions differ")


def _cores(quota: plain_quotas.Quota) -> dict[str, dict[str, int]]:
    """The specification of a quota, in whole cores."""
    return {part: {"cpu": quota.get(part, {}).get("cpu", 0) // 1000} for part in ("min", "max")}


def _bytes(made: cluster_objects.Json) -> bytes:
    return msgspec.json.encode(made)


def _difference(
    have: dict[str, model.Pod] | dict[str, model.Node] | dict[str, policy_model.WorkloadPolicy],
    want: dict[str, model.Pod] | dict[str, model.Node] | dict[str, policy_model.WorkloadPolicy],
) -> str:
    named = sorted(key for key in have.keys() | want.keys() if have.get(key) != want.get(key))
    return "; ".join(f"{key}: log {have.get(key)}, cluster {want.get(key)}" for key in named[:3])
