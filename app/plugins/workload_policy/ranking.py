"""Which of equally scored nodes comes first: what the coarse scale hides, then the method inside a domain.

Decides only where a single node is asked for (filter_onlyone); never alters the order of scores.
"""

from collections.abc import Mapping
from fractions import Fraction

from app.domain import model, selecting, snapshots, verdicts
from app.framework import cycles
from app.plugins.workload_policy import logic

STEP = 1 << 20
"""More than any node has pods: the place of a domain comes before what its nodes hold."""


def ranks(cycle: cycles.Cycle, nodes: verdicts.Names) -> Mapping[model.NodeName, int]:
    """Rank of each node, lower is better."""
    policy = logic.followed(cycle.snapshot, cycle.pod)
    if isinstance(policy, logic.Objection):
        return {}
    column = cycle.snapshot.topology[policy.topology_key]
    quotas = logic.quotas(cycle.snapshot, policy)
    places = sorted({_UNLISTED, *(_place(quota, policy.method) for quota in quotas)})
    ranked = dict.fromkeys(nodes, places.index(_UNLISTED) * STEP)
    for quota in quotas:
        base = places.index(_place(quota, policy.method)) * STEP
        ranked.update(dict.fromkeys(nodes & column[quota.domain], base))
    towards = -1 if policy.method == "Fill" else 1
    for node, held in _held(cycle.snapshot, policy, nodes).items():
        ranked[node] += towards * held
    return ranked


_UNLISTED = (2, Fraction(0))


def _place(quota: logic.Quota, method: str) -> tuple[int, Fraction]:
    """Unreached domains by the formula, reached ones by their ratio, then unlisted, then unwanted ones."""
    if not quota.desired:
        return 3, Fraction(quota.count)
    ratio = Fraction(quota.count, quota.desired)
    if quota.reached:
        return 1, ratio
    return 0, -ratio if method == "Fill" else ratio


def _held(
    snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy, nodes: verdicts.Names
) -> dict[model.NodeName, int]:
    """How many pods the policy counts on each of the nodes that have any."""
    held: dict[model.NodeName, int] = {}
    namespace = snapshot.namespaces.get(policy.namespace, snapshots.NO_PODS)
    on_nodes = (uid for node in nodes for uid in snapshot.residents.get(node, snapshots.NO_PODS))
    # The shorter walk: a node rarely holds more than some dozen pods.
    for uid in namespace if len(namespace) <= 16 * len(nodes) else on_nodes:
        pod = snapshot.pod(uid)
        if pod is None or not pod.counted or pod.namespace != policy.namespace:
            continue
        node = snapshot.node_of(uid)
        if node in nodes and selecting.matches(policy.selector, pod.labels):
            held[node] = held.get(node, 0) + 1
    return held
