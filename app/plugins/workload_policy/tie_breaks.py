"""Ranks nodes of equal score: by the exact ratio of their domain, then by the method inside the domain.

Used only where a single node is requested (filter_onlyone); the order of scores never changes.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from app.domain import model, node_sets, selectors, snapshots
from app.domain.fit import node_sums
from app.framework import cycles
from app.plugins.workload_policy import logic, policy_model

STEP = 1 << 20
"""More than the pods of any node, so that every node of the best domains has a rank below 0."""


def ranks(cycle: cycles.Cycle, nodes: node_sets.Names) -> Mapping[model.NodeName, int]:
    """Rank, below 0, of the nodes in the best domains that have any; the others, worse, have none."""
    policy = logic.followed(cycle.snapshot, cycle.pod)
    if isinstance(policy, logic.Objection):
        return {}
    best = _best(cycle, policy, nodes)
    ranked = dict.fromkeys(best, -STEP)
    towards = -1 if policy.method == "Fill" else 1
    for node, held in _held(cycle.snapshot, policy, best).items():
        ranked[node] += towards * held
    return ranked


_UNLISTED = (2, Fraction(0))


def _best(
    cycle: cycles.Cycle, policy: policy_model.WorkloadPolicy, nodes: node_sets.Names
) -> node_sets.Names:
    """Those of the nodes whose domain comes first."""
    column = cycle.snapshot.topology[policy.topology_key]
    quotas = logic.quotas(cycle.snapshot, policy)
    # Many domains have the same quota and count, and fractions are slow.
    alike: dict[tuple[int, int], list[logic.PolicyQuota]] = {}
    for quota in quotas:
        alike.setdefault((quota.desired, quota.count), []).append(quota)
    places: dict[tuple[int, Fraction], list[logic.PolicyQuota]] = {_UNLISTED: []}
    for those in alike.values():
        places.setdefault(_place(those[0], policy.method), []).extend(those)
    for place, listed in sorted(places.items(), key=lambda one: one[0]):
        if place == _UNLISTED:
            found = nodes.difference(*(column[quota.domain] for quota in quotas))
        else:
            found = _inside(nodes, (column[quota.domain] for quota in listed))
        if found:
            return found
    return node_sets.NONE


def _inside(nodes: node_sets.Names, domains: Iterable[node_sets.Names]) -> node_sets.Names:
    """The nodes that are in one of the domains."""
    return frozenset().union(*(nodes & domain for domain in domains))


def _place(quota: logic.PolicyQuota, method: str) -> tuple[int, Fraction]:
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
        node = (pod.node or snapshot.node_of(uid)) if pod is not None else ""
        if pod is None or node not in nodes or not pod.counted or pod.namespace != policy.namespace:
            continue
        if selectors.matches(policy.selector, pod.labels):
            held[node] = held.get(node, 0) + 1
    return held
