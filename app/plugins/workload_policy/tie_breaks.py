"""Ranks nodes of equal score: by the exact ratio of their domain, then by the method inside the domain.

Used only where a single node is requested (filter_onlyone); the order of scores never changes.
"""

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from itertools import repeat
from typing import NamedTuple

import immutables

from app.domain import model, node_sets, selectors, snapshots
from app.domain.fold import recounts
from app.framework import cycles
from app.plugins.workload_policy import kinds, logic, policy_model

STEP = 1 << 20
"""More than the pods of any node, so that every node of the best domains has a rank below 0."""


def ranks(cycle: cycles.Cycle, nodes: node_sets.Names) -> Mapping[model.NodeName, int]:
    """Rank, below 0, of the nodes in the best domains that have any; the others, worse, have none."""
    policy = logic.followed(cycle.snapshot, cycle.pod)
    if isinstance(policy, logic.Objection):
        return {}
    best = _best(cycle, policy, nodes)
    towards = -1 if policy.method == "Fill" else 1
    counts = _held(cycle.snapshot, policy)
    if len(best) < len(counts):
        held = map(counts.get, best, repeat(0))
        return {node: towards * count - STEP for node, count in zip(best, held, strict=True)}
    ranked = dict.fromkeys(best, -STEP)
    for node, count in counts.items():
        if node in ranked:
            ranked[node] += towards * count
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


class _Held(NamedTuple):
    """The pods that a policy counts in one state."""

    selector: model.Selector
    """That of the policy in that state."""
    nodes: "immutables.Map[model.Uid, model.NodeName]"
    """Counted pod -> its node."""
    counts: "immutables.Map[model.NodeName, int]"
    """Node -> number of counted pods, for nodes with such pods."""


def _held(
    snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy
) -> "immutables.Map[model.NodeName, int]":
    """Node -> number of pods that the policy counts there, for nodes with such pods.

    ``policy`` is one of the snapshot. Only the pods that changed since the latest call are examined, so that
    the cost does not grow with the pods of the policy; its quotas do not matter, which a question may change.
    """
    # While a policy exists, all pods of its namespace that are counted again are noted (projections).
    latest = snapshot.objects.lasting(kinds.POLICIES, policy.key, __name__, recounts.Latest[_Held])
    former, held = latest.held or ((), None)
    moved: Collection[model.Uid] | None = recounts.pods_between(former, snapshot.recounted)
    if held is None or moved is None or held.selector != policy.selector:
        held = _Held(policy.selector, immutables.Map(), immutables.Map())
        moved = snapshot.selectable(policy.namespace, policy.selector)
    found = _moved(held, snapshot, policy, moved) if moved else held
    latest.held = snapshot.recounted, found
    return found.counts


def _moved(
    held: _Held, snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, pods: Iterable[model.Uid]
) -> _Held:
    """The state after these pods changed."""
    nodes, counts = held.nodes.mutate(), held.counts.mutate()
    for uid in pods:
        before, after = nodes.get(uid, ""), _counting(snapshot, policy, uid)
        if before == after:
            continue
        if before:
            del nodes[uid]
            left = counts.pop(before) - 1
            if left:
                counts[before] = left
        if after:
            nodes[uid] = after
            counts[after] = counts.get(after, 0) + 1
    return _Held(held.selector, nodes.finish(), counts.finish())


def _counting(
    snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, uid: model.Uid
) -> model.NodeName:
    """The node on which the policy counts the pod; empty if it does not count it."""
    pod = snapshot.pod(uid)
    if pod is None or not pod.counted or pod.namespace != policy.namespace:
        return ""
    return snapshot.node_of(uid) if selectors.matches(policy.selector, pod.labels) else ""
