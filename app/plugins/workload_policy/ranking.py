"""Ranks nodes of equal score: by the exact ratio of their domain, then by the method inside the domain.

Used only where a single node is requested (filter_onlyone); the order of scores never changes.
"""

from collections.abc import Mapping
from fractions import Fraction

from app.domain import model, node_sets, selectors, snapshots
from app.domain.fitting import node_sums
from app.framework import cycles
from app.plugins.workload_policy import logic, policy_model

STEP = 1 << 20
"""More than the pods of any node, so that the rank of the domain prevails over the pods of the node."""


def ranks(cycle: cycles.Cycle, nodes: node_sets.Names) -> Mapping[model.NodeName, int]:
    """Rank of each node, lower is better."""
    policy = logic.followed(cycle.snapshot, cycle.pod)
    if isinstance(policy, logic.Objection):
        return {}
    column = cycle.snapshot.topology[policy.topology_key]
    quotas = logic.quotas(cycle.snapshot, policy)
    # Many domains have the same quota and count, and fractions are slow.
    alike = {(quota.desired, quota.count): _place(quota, policy.method) for quota in quotas}
    places = {place: at * STEP for at, place in enumerate(sorted({_UNLISTED, *alike.values()}))}
    ranked = dict.fromkeys(nodes, places[_UNLISTED])
    bases = {key: places[place] for key, place in alike.items()}
    for quota in quotas:
        ranked.update(dict.fromkeys(nodes & column[quota.domain], bases[quota.desired, quota.count]))
    towards = -1 if policy.method == "Fill" else 1
    for node, held in _held(cycle.snapshot, policy, nodes).items():
        ranked[node] += towards * held
    return ranked


_UNLISTED = (2, Fraction(0))


def _place(quota: logic.Quota, method: str) -> tuple[int, Fraction]:
    """Sort key: domains below their quota, domains at it, unlisted domains, domains with quota 0."""
    if not quota.desired:
        return 3, Fraction(quota.count)
    ratio = Fraction(quota.count, quota.desired)
    if quota.reached:
        return 1, ratio
    return 0, -ratio if method == "Fill" else ratio


def _held(
    snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, nodes: node_sets.Names
) -> dict[model.NodeName, int]:
    """Node -> number of pods that the policy counts there, for nodes with such pods."""
    held: dict[model.NodeName, int] = {}
    selectable = snapshot.selectable(policy.namespace, policy.selector)
    on_nodes = (uid for node in nodes for uid in snapshot.residents.get(node, node_sums.EMPTY))
    # Iterate over the smaller set: a node rarely holds more than a few dozen pods.
    for uid in selectable if len(selectable) <= 16 * len(nodes) else on_nodes:
        pod = snapshot.pod(uid)
        if pod is None or not pod.counted or pod.namespace != policy.namespace:
            continue
        node = pod.node or snapshot.node_of(uid)
        if node in nodes and selectors.matches(policy.selector, pod.labels):
            held[node] = held.get(node, 0) + 1
    return held
