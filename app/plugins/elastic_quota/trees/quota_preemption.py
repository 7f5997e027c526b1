"""The pods of its own quota that would have to go for a pod which the quota refuses.

Koordinator evicts them (plugins/elasticquota/preempt.go). kube-scheduler does not ask an extender about nodes
that the extender refused, so this is shown, and carried out by the controller on request (evictions). The
steps are those of kube-scheduler's own dry run (app.domain.fit.victims): a pod is put back if the other
still fits on the node and in the quota.
"""

from collections.abc import Mapping, Sequence

from app.domain import model, snapshots
from app.domain.fit import budgets, node_fit, victims
from app.framework import cycles
from app.plugins.elastic_quota import admission, quota_model
from app.plugins.elastic_quota.trees import forests, membership, overuse, usage


def veto(cycle: cycles.Cycle, offered: Sequence[model.Pod], rules: admission.QuotaRules) -> str | None:
    """Why the pod of a quota must not evict these: they are of other quotas, or not preemptible."""
    snapshot, pod = cycle.snapshot, cycle.pod
    if not admission.limited(snapshot, pod, rules):
        return None
    grown = usage.forest(snapshot)
    name = membership.of(pod, grown).name
    for one in offered:
        if membership.of(one, grown).name != name:
            return f"elastic quota {name}: pod {one.key} is of another quota"
        if not membership.preemptible(one):
            return f"elastic quota {name}: pod {one.key} is not preemptible"
    return None


def evictions(
    snapshot: snapshots.Snapshot, pod: model.Pod, rules: admission.QuotaRules
) -> dict[model.NodeName, victims.Eviction]:
    """Node -> the eviction after which the pod fits there and in its quota; empty if the quota admits it."""
    found = admission.admission(snapshot, pod, rules) if pod.preemption_policy != "Never" else None
    if found is None or not found.reason or found.objection or found.quota in quota_model.BUILT_IN:
        return {}
    grown, limits = usage.forest(snapshot), budgets.recorded(snapshot)
    made = (
        (name, _eviction(snapshot, pod, node, found, grown, limits)) for name, node in snapshot.nodes.items()
    )
    return {name: eviction for name, eviction in made if eviction is not None}


def least_harm(possible: Mapping[model.NodeName, victims.Eviction]) -> dict[str, object] | None:
    """The eviction with the least harm, for the view of a pod; None without any."""
    chosen = victims.choose(possible)
    if chosen is None:
        return None
    eviction = possible[chosen.node]
    return {
        "node": chosen.node,
        "decidedBy": chosen.decided_by,
        "violations": eviction.violations,
        "victims": [
            {"namespace": one.namespace, "name": one.name, "priority": one.priority}
            for one in eviction.victims
        ],
    }


def _eviction(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.Node,
    found: admission.Admission,
    grown: forests.Forest,
    limits: budgets.ByNamespace,
) -> victims.Eviction | None:
    going = [
        one
        for one in victims.candidates(snapshot, pod, node.name)
        if membership.of(one, grown).name == found.quota and membership.evictable(one)
    ]
    if not going or node_fit.refused(pod, node):
        return None
    held, freed = node_fit.occupancy(snapshot, node.name), dict[str, int]()
    for one in going:
        held = held.without(one)
        _add(freed, overuse.amounts(one, grown, found.quota), +1)
    if node_fit.crowded(pod, node, held) or not _admits(found, freed):
        return None
    violating = budgets.refused(going, limits)  # the controller evicts them
    evicted = []
    for one in sorted(going, key=lambda candidate: candidate.uid not in violating):
        amounts, again = overuse.amounts(one, grown, found.quota), held.plus(one)
        _add(freed, amounts, -1)
        if node_fit.crowded(pod, node, again) or not _admits(found, freed):
            _add(freed, amounts, +1)
            evicted.append(one)
        else:
            held = again
    return victims.Eviction(tuple(victims.by_importance(evicted)), violating)


def _add(sums: dict[str, int], amounts: dict[str, int], by: int) -> None:
    for resource, amount in amounts.items():
        sums[resource] = sums.get(resource, 0) + by * amount


def _admits(found: admission.Admission, freed: dict[str, int]) -> bool:
    """Whether every test passes with less in use; preemptible pods are not part of the firm counts."""
    return all(
        test._replace(used=test.used - (0 if test.firm else freed.get(test.resource, 0))).fits
        for test in found.tests
    )
