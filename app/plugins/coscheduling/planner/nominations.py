"""Nominated pods in the state that a gang is planned in.

Those of others hold the capacity that kube-scheduler holds for them, for every member alike, also for one
whose place another member's bind commits. Members are planned wherever they are nominated, so their
nominations are no seats. Of equal members, though, those nominated for a node are the first to get a seat
there: to every other member kube-scheduler offers the node only beside them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from app.domain import events, model, projections, snapshots
from app.framework import cycles
from app.plugins.coscheduling import gangs, membership
from app.plugins.coscheduling.membership import GangKey


def others(cycle: cycles.Cycle, nominated: Sequence[model.Pod]) -> Sequence[model.Pod]:
    """The nominated pods that are not planned together with the pod of the cycle."""
    key = membership.of(cycle.pod)
    if key is None or not nominated:
        return nominated
    gang = gang_of(cycle.snapshot, key, (cycle.pod,))
    if gang is None:
        return nominated
    return [one for one in nominated if membership.of(one) not in gang.planned_with]


def gang_of(snapshot: snapshots.Snapshot, key: GangKey, asked: Iterable[model.Pod] = ()) -> gangs.Gang | None:
    """``gangs.limited`` in the state without supposed placements of the members: none satisfies the gang."""
    return gangs.limited(changed(snapshot, _supposed(snapshot, (key,))), key, asked)


def as_waiting(snapshot: snapshots.Snapshot, keys: Collection[GangKey]) -> snapshots.Snapshot:
    """The state without nominations of members, and without supposed placements: they are no seats."""
    unnominated = [
        events.PodSeen(pod=msgspec.structs.replace(pod, nominated=""))
        for uid in snapshot.nominated
        if (pod := snapshot.pod(uid)) is not None and membership.of(pod) in keys
    ]
    return changed(snapshot, [*_supposed(snapshot, keys), *unnominated])


def _supposed(snapshot: snapshots.Snapshot, keys: Collection[GangKey]) -> list[events.AnyEvent]:
    """What ends the supposed placements of members."""
    return [
        events.not_placed(pod, placement.node)
        for uid, placement in snapshot.placements.items()
        if not placement.at and gangs.NAME not in placement.data
        if (pod := snapshot.pod(uid)) is not None and membership.of(pod) in keys
    ]


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


def of_members(snapshot: snapshots.Snapshot, keys: Collection[GangKey]) -> dict[model.Uid, model.NodeName]:
    """Nominated member -> node."""
    pods = filter(None, map(snapshot.pod, snapshot.nominated))
    return {pod.uid: pod.nominated for pod in pods if membership.of(pod) in keys}


def preferred(
    seats: Mapping[model.Uid, model.NodeName],
    equal: Iterable[Sequence[model.Uid]],
    nominated: Mapping[model.Uid, model.NodeName],
) -> dict[model.Uid, model.NodeName]:
    """The same number of seats on each node, those of equal members first for the ones nominated there.

    ``equal``: members that may change seats, or leave theirs to one without, in order.
    """
    found = dict(seats)
    for members in equal:
        seated = [uid for uid in members if uid in seats]
        left = Counter(found.pop(uid) for uid in seated)
        # A member that is nominated for the node of its seat keeps it.
        first = sorted(members, key=lambda uid: seats.get(uid) != nominated.get(uid))
        for uids, wanted in ((first, nominated), (seated, seats)):
            for uid in uids:
                node = wanted.get(uid, "")
                if uid not in found and left[node]:
                    found[uid] = node
                    left[node] -= 1
        found.update(zip((uid for uid in seated if uid not in found), left.elements(), strict=False))
    return found


def counted(snapshot: snapshots.Snapshot, pods: Iterable[model.Pod]) -> snapshots.Snapshot:
    """The state in which these pods are placed on their nominated nodes."""
    return changed(snapshot, [events.placed(pod, pod.nominated) for pod in pods])


def changed(snapshot: snapshots.Snapshot, supposed: Sequence[events.AnyEvent]) -> snapshots.Snapshot:
    """The state as it would be after these events, at the same position."""
    if not supposed:
        return snapshot
    return replace(projections.project_all(snapshot, supposed), position=snapshot.position)
