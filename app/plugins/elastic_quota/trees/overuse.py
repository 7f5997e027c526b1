"""Quotas that use more than their runtime, and the pods that would have to go (evicted only by evictions).

The choice is Koordinator's (quota_overuse_revoke.go): pods are set aside from the least important on until
the rest fits; then, from the most important on, those that fit again are kept. Non-preemptible pods stay.
Where these, or the pods of children, hold the excess, Koordinator chooses all pods that are left. Here a pod
that requests nothing of the excess stays: without it the quota would use as much, and admit its replacement.
One that cannot be evicted, or that its owner creates again on the same node, stays, too, and others are
chosen in its place.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.domain import model, snapshots
from app.domain.fit import budgets
from app.framework import views
from app.plugins.elastic_quota import admission, quota_counts, quota_model
from app.plugins.elastic_quota.trees import forests, membership, usage


class Member(NamedTuple):
    """A pod of a quota that is on a node."""

    pod: model.Pod
    amounts: Mapping[str, int]
    """Resource -> request in counted units."""


def members(snapshot: snapshots.Snapshot, name: str) -> list[Member]:
    """The pods on nodes that belong to the quota itself, and have not finished."""
    grown = usage.forest(snapshot)
    return [Member(pod, amounts(pod, grown, name)) for pod in _on_nodes(snapshot).get(name, ())]


def _on_nodes(snapshot: snapshots.Snapshot) -> Mapping[str, Sequence[model.Pod]]:
    """Quota -> its members; in one pass, because all quotas may be over at once, as after a loss of nodes."""

    def compute() -> Mapping[str, Sequence[model.Pod]]:
        grown, found = usage.forest(snapshot), dict[str, list[model.Pod]]()
        for node in snapshot.residents:
            for pod in snapshot.on(node):
                if not pod.finished:
                    found.setdefault(membership.of(pod, grown).name, []).append(pod)
        return found

    return snapshot.computed(_on_nodes, compute)


def amounts(pod: model.Pod, grown: forests.Forest, name: str) -> dict[str, int]:
    """Resource -> what the pod counts in the quota."""
    asked = quota_counts.requests(pod, grown, name)
    return {resource: quota_counts.counted(resource, amount) for resource, amount in asked.items()}


def over(snapshot: snapshots.Snapshot, name: str, rules: admission.QuotaRules) -> dict[str, int]:
    """Resource -> by how much the quota exceeds its limit, in counted units; empty if it does not."""
    grown = usage.forest(snapshot)
    if name not in grown.quotas or name in grown.errors or not _revoked(name, rules):
        return {}
    limits = admission.limit(snapshot, grown, name, rules)
    found = {
        resource: quota_counts.count(snapshot, grown, name, resource) - quota_counts.ceiling(resource, most)
        for resource, most in limits.items()
    }
    return {resource: excess for resource, excess in sorted(found.items()) if excess > 0}


def _revoked(name: str, rules: admission.QuotaRules) -> bool:
    """Whether pods would have to go from the quota if it used too much: of the built-in ones only from the
    default quota, if it limits its pods (syncQuota in quota_overuse_revoke.go).
    """
    return name not in quota_model.BUILT_IN or (name == quota_model.DEFAULT and rules.default_quota)


def exceeded(rules: admission.QuotaRules, snapshot: snapshots.Snapshot) -> Mapping[views.Limited, float]:
    """What each quota uses above its limit: cores of cpu, bytes of memory, or a number."""
    return {
        views.Limited(quota.namespace, name, resource): _amount(resource, excess)
        for name, quota in usage.forest(snapshot).quotas.items()
        for resource, excess in over(snapshot, name, rules).items()
    }


def _amount(resource: str, count: int) -> float:
    amount = quota_counts.amount(resource, count)
    return amount / 1000 if resource == "cpu" else amount


def excess_pods(
    excess: Mapping[str, int], found: Iterable[Member], limits: budgets.ByNamespace = budgets.NONE
) -> Sequence[Member]:
    """The pods that would have to go, the most important first.

    If even all evictable pods are not enough, these are all that free some of the excess. Pods stay that the
    Eviction API never evicts, with these budgets.
    """
    left = dict(excess)
    aside: list[Member] = []
    for one in sorted((one for one in found if membership.evictable(one.pod)), key=_least_important):
        if _holds_excess(one, left) and not budgets.several(one.pod, limits):
            aside.append(one)
            _add(left, one, -1)
    going: list[Member] = []
    for one in reversed(aside):
        _add(left, one, +1)
        if _holds_excess(one, left):
            _add(left, one, -1)
            going.append(one)
    return going


def _holds_excess(one: Member, left: Mapping[str, int]) -> bool:
    """Whether the pod requests a resource of which more is used than allowed."""
    return any(amount > 0 and one.amounts.get(resource, 0) > 0 for resource, amount in left.items())


def _add(left: dict[str, int], one: Member, by: int) -> None:
    for resource in left:
        left[resource] += by * one.amounts.get(resource, 0)


class _Latest(str):
    """A time as text; the later sorts first."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _least_important(one: Member) -> tuple[int, _Latest, str]:
    return one.pod.priority, _Latest(one.pod.started or "~"), one.pod.uid
