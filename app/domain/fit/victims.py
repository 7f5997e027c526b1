"""Selects the pods that kube-scheduler would evict for a pod, and the node.

The rules of its plugin DefaultPreemption: SelectVictimsOnNode
(plugins/defaultpreemption/default_preemption.go) and pickOneNodeForPreemption (preemption/preemption.go, both
below pkg/scheduler/framework, Kubernetes 1.37), for pods that are preempted one by one, not as a group.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.domain import model, snapshots
from app.domain.fit import budgets, node_fit
from app.domain.fold import node_sums

NO_VICTIMS = "No preemption victims found for incoming pod"
_NOT_STARTED = "~"
"""Sorts behind every RFC 3339 time: a pod that has not started counts as started now."""
OFFSET = 2**31
"""Makes every priority positive, so that of several negative ones fewer victims are preferred."""
LOWEST = -OFFSET
"""No pod has a lower priority, and one that has it evicts no other."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """The pods to evict from one node."""

    victims: tuple[model.Pod, ...]
    """The most important first."""
    violating: frozenset[model.Uid] = frozenset()
    """Those whose eviction violates a PodDisruptionBudget."""

    @property
    def violations(self) -> int:
        """Number of victims whose eviction violates a PodDisruptionBudget."""
        return sum(victim.uid in self.violating for victim in self.victims)


def started(pod: model.Pod) -> str:
    """When the pod started, for comparison."""
    return pod.started or _NOT_STARTED


def by_importance(pods: Iterable[model.Pod]) -> list[model.Pod]:
    """The most important first: by priority, then by earlier start; equal ones keep their order."""
    return sorted(pods, key=lambda pod: (-pod.priority, started(pod)))


def candidates(snapshot: snapshots.Snapshot, pod: model.Pod, node: model.NodeName) -> list[model.Pod]:
    """The pods on the node that the pod may preempt, the most important first; equal ones by uid."""
    lowest = snapshot.residents.get(node, node_sums.EMPTY).lowest_priority(snapshot.pod)
    if lowest is None or lowest >= pod.priority:
        return []
    return by_importance(
        sorted(
            (
                one
                for one in snapshot.on(node)
                if one.priority < pod.priority and one.uid != pod.uid and node_sums.holding(one)
            ),
            key=lambda one: one.uid,
        )
    )


def select(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.Node,
    nominated: Sequence[model.Pod] = (),
    held_budgets: budgets.ByNamespace = budgets.NONE,
) -> Eviction | str:
    """The smallest eviction after which the pod fits on the node, or why there is none.

    ``nominated``: other pods of at least the pod's priority that are nominated for the node and count as
    placed.
    """
    found = candidates(snapshot, pod, node.name)
    if not found:
        return NO_VICTIMS
    held = node_fit.occupancy(snapshot, node.name)
    for one in found:
        held = held.without(one)
    for one in nominated:
        held = held.plus(one)
    reasons = node_fit.refused(pod, node) or node_fit.crowded(pod, node, held)
    if reasons:
        return ", ".join(reason.text for reason in reasons)
    violating = budgets.violating(found, held_budgets)
    victims = []
    for one in sorted(found, key=lambda candidate: candidate.uid not in violating):
        again = held.plus(one)
        if node_fit.crowded(pod, node, again):
            victims.append(one)
        else:
            held = again
    if not victims:
        return f'expected at least one victim pod on node "{node.name}"'
    return Eviction(tuple(by_importance(victims)), violating)


@dataclass(frozen=True, slots=True)
class Choice:
    """The node that is preempted, and the criterion that decided."""

    node: model.NodeName
    decided_by: str


def _earliest(eviction: Eviction) -> str:
    top = max(victim.priority for victim in eviction.victims)
    return min(started(victim) for victim in eviction.victims if victim.priority == top)


_CRITERIA: tuple[tuple[str, Callable[[Eviction], int]], ...] = (
    ("fewest PodDisruptionBudget violations", lambda one: one.violations),
    ("lowest priority of the most important victim", lambda one: max(v.priority for v in one.victims)),
    ("lowest sum of the victims' priorities", lambda one: sum(v.priority + OFFSET for v in one.victims)),
    ("fewest victims", lambda one: len(one.victims)),
)
ONLY = "only candidate"
LATEST = "latest start of the most important victims"
BY_NAME = "name of the node; kube-scheduler takes any of the equal ones"


def choose(evictions: Mapping[model.NodeName, Eviction]) -> Choice | None:
    """The node whose eviction does the least harm; None without a node.

    Raises ValueError if an eviction has no victims.
    """
    left = sorted(evictions)
    if len(left) < 2:
        return Choice(left[0], ONLY) if left else None
    for criterion, harm in _CRITERIA:
        least = min(harm(evictions[node]) for node in left)
        left = [node for node in left if harm(evictions[node]) == least]
        if len(left) == 1:
            return Choice(left[0], criterion)
    latest = max(_earliest(evictions[node]) for node in left)
    left = [node for node in left if _earliest(evictions[node]) == latest]
    return Choice(left[0], LATEST if len(left) == 1 else BY_NAME)
