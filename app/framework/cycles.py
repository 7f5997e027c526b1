"""The input of a decision; equal cycles give equal traces."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import msgspec

from app.domain import events, model, node_sets, projections, snapshots, verdicts


class HookFailed(Exception):
    """A plugin raised in a method that the framework calls: the decision cannot use what it would return."""

    def __init__(self, plugin: str, hook: str, text: str) -> None:
        super().__init__(text)
        self.plugin = plugin
        self.hook = hook
        """The method, such as ``filter``."""

    @classmethod
    def of(cls, plugin: str, hook: str, problem: Exception) -> "HookFailed":
        """The error that names plugin and method.

        The text of the problem may have anything in it; it is in the log, with the traceback.
        """
        if isinstance(problem, HookFailed):
            return problem  # Of a plugin that this one consulted.
        return cls(plugin, hook, f"plugin {plugin} failed in {hook} ({type(problem).__name__})")


class SumClass(NamedTuple):
    """What is equal for pods of which each may stand for another, on nodes that are alike in the labels."""

    labels: tuple[str, ...]
    properties: Hashable

    def part(self, node: model.Node) -> tuple[str | None, ...]:
        """Equal for nodes that are alike in the labels."""
        return tuple([node.labels.get(label) for label in self.labels])


class Peers(Protocol):
    """The other plugins, for a plugin that decides about further pods than that of the cycle."""

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        """Whether any of them may refuse the pod in this state."""
        ...

    def refusals(
        self, pod: model.Pod, candidates: node_sets.Names, snapshot: snapshots.Snapshot
    ) -> tuple[verdicts.Refusal, ...]:
        """The candidates that each of them refuses to the pod, which must not be on a node."""
        ...

    def summed(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> SumClass | None:
        """The kind of the pod, if all that may refuse it do so by sums (capabilities.Sums); else None."""
        ...

    def by_sums(self, pods: Iterable[model.Pod]) -> bool:
        """Whether all of them that may refuse one of the pods do so by sums."""
        ...

    def stays_refused(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        """Whether a pod of the same kind, once refused, is refused also beside more of them."""
        ...


class _NoPeers:
    """A plugin alone."""

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return False

    def refusals(
        self, pod: model.Pod, candidates: node_sets.Names, snapshot: snapshots.Snapshot
    ) -> tuple[verdicts.Refusal, ...]:
        return ()

    def summed(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> SumClass | None:
        return SumClass((), ())

    def by_sums(self, pods: Iterable[model.Pod]) -> bool:
        return True

    def stays_refused(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return True


ALONE: Peers = _NoPeers()
"""For a decision that asks no other plugin."""


OFFERED = 100
"""Nodes at which kube-scheduler's dry run of a preemption may end (minCandidateNodesAbsolute): an offer of
fewer has every node where an eviction would help."""


class Before(NamedTuple):
    """The state before the evictions that a cycle supposes, where others than its pod would have to evict."""

    snapshot: snapshots.Snapshot
    further: bool
    """Whether they may evict pods from further nodes, too; else only what the cycle lacks."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One pod, the nodes it may go to, and the cluster at one offset."""

    pod: model.Pod
    candidates: node_sets.Names
    snapshot: snapshots.Snapshot
    score_max: int = 10
    """The largest score of plugins that compute percentages."""
    reserved: model.NodeName = ""
    """The node of the pod's placement in the log, which the snapshot leaves out; empty without one."""
    placement: model.Placement | None = field(default=None, compare=False, repr=False)
    """That placement."""
    offered: bool = False
    """Whether kube-scheduler offers the candidates in a call of filter: it has found that the pod fits there,
    in the state that it has or supposes."""
    before: Before | None = field(default=None, compare=False, repr=False)
    """None where the pod is alone: it evicts whatever the cycle lacks, if anything."""
    peers: Peers = field(default=ALONE, compare=False, repr=False)
    """Filled in by the framework for plugins that consult the others (capabilities.Consults)."""


def cycle(
    pod: model.Pod,
    candidates: node_sets.Names,
    snapshot: snapshots.Snapshot,
    *,
    score_max: int = 10,
    offered: bool = False,
) -> Cycle:
    """A cycle for the pod, whose own placement or node, if it has one, is not counted."""
    placement = snapshot.placements.get(pod.uid)
    if snapshot.node_of(pod.uid):
        snapshot = _supposing(snapshot, (events.gone(pod),))
    reserved = placement.node if placement is not None else ""
    return Cycle(pod, candidates, snapshot, score_max, reserved, placement, offered)


def without(base: Cycle, victims: Iterable[model.Pod]) -> Cycle:
    """The cycle as it would be without the victims."""
    gone = [events.gone(victim) for victim in victims]
    return replace(base, snapshot=_supposing(base.snapshot, gone)) if gone else base


def without_terminating(snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    """The state once the pods that terminate are gone; the snapshot itself if there are none."""
    return snapshot.computed(without_terminating, lambda: _without_terminating(snapshot))


def _without_terminating(snapshot: snapshots.Snapshot) -> snapshots.Snapshot:
    going = [events.gone(pod) for pod in snapshot.pods.values() if pod.terminating]
    return _supposing(snapshot, going) if going else snapshot


def nominated(base: Cycle) -> tuple[model.Pod, ...]:
    """The nominated pods that kube-scheduler counts for this pod: of at least its priority (PR-7..10)."""
    return tuple(base.snapshot.nominated_before(base.pod))


def unnominated(base: Cycle, pods: Iterable[model.Pod]) -> Cycle:
    """The cycle as it would be without the nominations of these pods."""
    seen = [events.PodSeen(pod=msgspec.structs.replace(pod, nominated="")) for pod in pods]
    return replace(base, snapshot=_supposing(base.snapshot, seen)) if seen else base


def assuming(base: Cycle, pods: Iterable[model.Pod]) -> Cycle:
    """The cycle as it would be with the nominated pods placed on their nominated nodes."""
    placed = [events.placed(pod, pod.nominated) for pod in pods]
    return replace(base, snapshot=_supposing(base.snapshot, placed)) if placed else base


def _supposing(snapshot: snapshots.Snapshot, supposed: Iterable[events.AnyEvent]) -> snapshots.Snapshot:
    """The snapshot as it would be after the events; its position stays that of the original."""
    return replace(projections.project_all(snapshot, supposed), position=snapshot.position)
