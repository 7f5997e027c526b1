"""The input of a decision; equal cycles give equal traces."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.domain import events, model, node_sets, projecting, snapshots


@dataclass(frozen=True, slots=True)
class Cycle:
    """One pod, the nodes it may go to, and the cluster at one offset."""

    pod: model.Pod
    candidates: node_sets.Names
    snapshot: snapshots.Snapshot
    score_max: int = 10
    """The largest score of plugins that compute percentages."""


def cycle(
    pod: model.Pod, candidates: node_sets.Names, snapshot: snapshots.Snapshot, *, score_max: int = 10
) -> Cycle:
    """A cycle for the pod, whose own placement or node, if it has one, is not counted."""
    if snapshot.node_of(pod.uid):
        snapshot = _supposing(snapshot, (_gone(pod),))
    return Cycle(pod=pod, candidates=candidates, snapshot=snapshot, score_max=score_max)


def without(base: Cycle, victims: Iterable[model.Pod]) -> Cycle:
    """The cycle as it would be without the victims."""
    gone = [_gone(victim) for victim in victims]
    return replace(base, snapshot=_supposing(base.snapshot, gone)) if gone else base


def nominated(base: Cycle) -> tuple[model.Pod, ...]:
    """The nominated pods that kube-scheduler counts for this pod: of at least its priority (PR-7..10)."""
    found = (base.snapshot.pods.get(uid) for uid in base.snapshot.nominated)
    return tuple(
        pod
        for pod in found
        if pod is not None
        and pod.uid != base.pod.uid
        and pod.priority >= base.pod.priority
        and pod.uid not in base.snapshot.placements
    )


def assuming(base: Cycle, pods: Iterable[model.Pod]) -> Cycle:
    """The cycle as it would be with the nominated pods placed on their nominated nodes."""
    placed = [events.placed(pod, pod.nominated) for pod in pods]
    return replace(base, snapshot=_supposing(base.snapshot, placed)) if placed else base


def _gone(pod: model.Pod) -> events.PodGone:
    return events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name)


def _supposing(snapshot: snapshots.Snapshot, supposed: Iterable[events.AnyEvent]) -> snapshots.Snapshot:
    """The snapshot as it would be after the events; its position stays that of the original."""
    return replace(projecting.project_all(snapshot, supposed), position=snapshot.position)
