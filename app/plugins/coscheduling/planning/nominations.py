"""Nominated pods in the state that a gang is planned in.

Those of others hold the capacity that kube-scheduler holds for them, for every member alike, also for one
whose place another member's bind commits. Members are planned wherever they are nominated, so their
nominations are no seats.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import msgspec

from app.domain import events, model, projecting, snapshots
from app.framework import cycles
from app.plugins.coscheduling import gangs, membership
from app.plugins.coscheduling.membership import GangKey


def others(cycle: cycles.Cycle, nominated: Sequence[model.Pod]) -> Sequence[model.Pod]:
    """The nominated pods that are not planned together with the pod of the cycle."""
    key = membership.of(cycle.pod)
    gang = gangs.find(cycle.snapshot, key, (cycle.pod,)) if key is not None else None
    if gang is None:
        return nominated
    return [one for one in nominated if membership.of(one) not in gang.together]


def as_waiting(snapshot: snapshots.Snapshot, keys: Collection[GangKey]) -> snapshots.Snapshot:
    """The state without nominations of members, and without supposed placements: they are no seats."""
    supposed: list[events.AnyEvent] = [
        events.not_placed(pod, placement.node)
        for uid, placement in snapshot.placements.items()
        if not placement.at and gangs.NAME not in placement.data
        if (pod := snapshot.pod(uid)) is not None and membership.of(pod) in keys
    ]
    supposed += [
        events.PodSeen(pod=msgspec.structs.replace(pod, nominated=""))
        for uid in snapshot.nominated
        if (pod := snapshot.pod(uid)) is not None and membership.of(pod) in keys
    ]
    return _changed(snapshot, supposed)


def of_others(snapshot: snapshots.Snapshot, together: Iterable[gangs.Gang]) -> tuple[model.Pod, ...]:
    """The nominated pods that count beside the gangs: of at least the priority of some waiting member."""
    if not snapshot.nominated:
        return ()
    keys = {gang.key for gang in together}
    waiting = [pod for gang in together for pod in gang.waiting]
    if not waiting:
        return ()
    least = min(waiting, key=lambda pod: pod.priority)
    return tuple(one for one in snapshot.nominated_before(least) if membership.of(one) not in keys)


def counted(snapshot: snapshots.Snapshot, pods: Iterable[model.Pod]) -> snapshots.Snapshot:
    """The state in which these pods are placed on their nominated nodes."""
    return _changed(snapshot, [events.placed(pod, pod.nominated) for pod in pods])


def _changed(snapshot: snapshots.Snapshot, supposed: Sequence[events.AnyEvent]) -> snapshots.Snapshot:
    if not supposed:
        return snapshot
    return replace(projecting.project_all(snapshot, supposed), position=snapshot.position)
