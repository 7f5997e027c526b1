"""The pods with which other namespaces exceed their min, for a pod of a namespace that is within its own.

CapacityScheduling evicts them, whatever their priority (capacity_scheduling.go, SelectVictimsOnNode).
kube-scheduler starts no preemption on nodes that an extender refused, so they are shown, and with ``reclaim``
added to the victims of a preemption that kube-scheduler has started for another reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from app.domain import model, snapshots
from app.domain.fit import budgets, node_fit, victims
from app.domain.fold import node_sums
from app.framework import cycles
from app.plugins.elastic_quota import admission as quotas
from app.plugins.elastic_quota import quota_counts
from app.plugins.elastic_quota.sigs import admission, namespace_counts, namespace_quota

Amounts = dict[str, int]


def beside(
    cycle: cycles.Cycle, node: model.NodeName, gone: Sequence[model.Pod], rules: quotas.QuotaRules
) -> Sequence[model.Pod]:
    """The pods of the node without which, beside those that go, all namespaces together have capacity for the
    pod, the most important first; none if these are not enough, or none is needed.

    Pods that terminate count as gone: with them, other pods of a namespace would be evicted for the capacity
    that it is giving back already, and more than its min allows.
    """
    if not _shortage(cycles.without(cycle, gone).snapshot, cycle.pod, rules):
        return ()  # As for most pods: those that terminate only add to what is used.
    later = cycles.without_terminating(cycle.snapshot)
    snapshot = cycles.without(replace(cycle, snapshot=later), gone).snapshot
    short = _shortage(snapshot, cycle.pod, rules)
    return _enough(snapshot, cycle.pod, node, short, _over(snapshot, short)) if short else ()


def evictions(
    snapshot: snapshots.Snapshot, pod: model.Pod, rules: quotas.QuotaRules
) -> dict[model.NodeName, victims.Eviction]:
    """Node -> the pods that would have to go so that the pod fits there and its quota admits it."""
    snapshot = cycles.without_terminating(snapshot)
    short = _shortage(snapshot, pod, rules) if pod.preemption_policy != "Never" else {}
    limits = budgets.recorded(snapshot) if short else budgets.NONE
    over = _over(snapshot, short)
    found: dict[model.NodeName, victims.Eviction] = {}
    for name, node in snapshot.nodes.items() if short else ():
        going = _enough(snapshot, pod, name, short, over)
        if going and not node_fit.fits(snapshot, pod, node, minus=going):
            found[name] = victims.Eviction(tuple(going), budgets.violating(going, limits))
    return found


def _shortage(snapshot: snapshots.Snapshot, pod: model.Pod, rules: quotas.QuotaRules) -> Amounts:
    """Resource -> what all namespaces together lack for the pod; empty if the pod may not reclaim it.

    It may if nothing else refuses it, and its namespace stays within its min.
    """
    found = admission.tests(snapshot, pod, rules)
    if found is None or found.objection:
        return {}
    failed = [test for test in found.tests if not test.fits]
    if any(test.quota != quotas.TOGETHER for test in failed):
        return {}
    known = namespace_quota.namespaces(snapshot.objects)
    least = known.quotas[pod.namespace].min
    for resource, request in namespace_counts.requests(pod).items():
        low = quota_counts.ceiling(resource, least.get(resource, 0))
        if (
            resource in known.total
            and namespace_counts.used(snapshot, pod.namespace, resource) + request > low
        ):
            return {}
    return {test.resource: test.used + test.request - test.limit for test in failed}


def _enough(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.NodeName,
    short: Mapping[str, int],
    over: Mapping[str, Amounts],
) -> Sequence[model.Pod]:
    """The least important pods of the node that make up for the shortage, the most important first."""
    left, going = dict(short), list[model.Pod]()
    there = [one for one in snapshot.on(node) if node_sums.holding(one) and one.namespace != pod.namespace]
    rest: dict[str, Amounts] = {}  # ``over`` without those that go
    for one in reversed(victims.by_importance(sorted(there, key=lambda each: each.uid))):
        borrowed = rest.setdefault(one.namespace, dict(over.get(one.namespace, {})))
        if any(
            left[at] > 0 and borrowed.get(at, 0) > 0 for at in namespace_counts.requests(one) if at in left
        ):
            going.append(one)
            _add((left, borrowed), one, -1)
    if any(amount > 0 for amount in left.values()):
        return ()
    for one in going[::-1]:
        _add((left,), one, +1)
        if any(amount > 0 for amount in left.values()):
            _add((left,), one, -1)
        else:
            going.remove(one)
    return going[::-1]


def _over(snapshot: snapshots.Snapshot, resources: Iterable[str]) -> dict[str, Amounts]:
    """Namespace -> resource -> by how much its pods exceed its min. That of an invalid quota is unknown."""
    known = namespace_quota.namespaces(snapshot.objects).quotas
    return {
        namespace: {
            resource: namespace_counts.used(snapshot, namespace, resource)
            - quota_counts.ceiling(resource, quota.min.get(resource, 0))
            for resource in resources
        }
        for namespace, quota in known.items()
        if not quota.errors
    }


def _add(columns: Iterable[Amounts], pod: model.Pod, by: int) -> None:
    for resource, amount in namespace_counts.requests(pod).items():
        for amounts in columns:
            if resource in amounts:
                amounts[resource] += by * amount
