"""Effects of a seat that is lost before a member of its gang is bound: an Event, and a release of others."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from app.domain import events, model, snapshots
from app.framework import effects
from app.plugins.coscheduling import admission, gangs, kinds, membership
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.membership import GangKey
from app.plugins.coscheduling.seats import commitments

LOST = "GangLostSeat"
FOLLOWS = 15.0
"""Seconds in which a pod whose seat was given up for another one has that: by default a bind takes at most
3.5 s (``budgets.bind``), and kube-scheduler repeats one that failed after at most 10 s."""
_LEFT, _DELETED = "the pod has left the gang of its seat", "its pod is being deleted"
_GOING = "what is left is released, unless a member is bound first"
"""Without a number: the Event of the loss of these seats has that of those which were released."""


class _Loss(NamedTuple):
    """A seat that was lost."""

    node: model.NodeName
    reason: str


def about(snapshot: snapshots.Snapshot, gang: Gang) -> model.Pod | effects.Involved | None:
    """What Events of the gang are about: the PodGroup, or the first waiting member without one."""
    kind = kinds.OF_FAMILY[gang.key.family]
    held = snapshot.get(kind, gang.key.short)
    if held is None:
        return next(iter(gang.waiting), None) or next((seat.pod for seat in gang.seats), None)
    version = f"{kind.group}/{kind.versions[0]}"
    return effects.Involved(version, kind.manifest, held.namespace, held.name, held.uid)


def of_events(
    before: snapshots.Snapshot, snapshot: snapshots.Snapshot, happened: tuple[events.AnyEvent, ...]
) -> Iterator[effects.Effect]:
    """The effects of seats that were lost, also of those that were taken and lost within the events.

    The seats that a gang has lost are one effect: each that is given up for another is lost in turn.
    """
    changed: dict[model.Uid, model.Placement | None] = {}
    lost: dict[GangKey, list[_Loss]] = {}
    moving: dict[GangKey, set[model.Uid]] = {}
    for event in happened:
        for uid, now, reason in _changed(event):
            former, changed[uid] = changed.get(uid, _seat(before, uid)), now
            key = gangs.committed_for(former) if former and gangs.NAME in former.data else None
            if key is None or former is None:
                continue
            if now is not None and gangs.committed_for(now) != key:
                reason = _LEFT
            if reason:
                lost.setdefault(key, []).append(_Loss(former.node, reason))
            elif isinstance(event, events.PlacementReleased):
                moving.setdefault(key, set()).add(uid)
    for key, losses in sorted(lost.items()):
        yield from _lost(snapshot, key, losses)
    for key in sorted(moving.keys() - lost.keys()):
        # Each is awaited by itself: it has its time whatever others do.
        for uid in sorted(moving[key]) if _released_again(key, snapshot) is not None else ():
            found = _released_unless_placed(key, uid, snapshot)
            if found is not None:
                yield found


def _seat(snapshot: snapshots.Snapshot, uid: model.Uid) -> model.Placement | None:
    """The placement of the pod; None for one that is being deleted: its seat was lost when that was seen."""
    pod = snapshot.pod(uid)
    return snapshot.placements.get(uid) if pod is not None and not pod.terminating else None


def _changed(event: events.AnyEvent) -> Iterable[tuple[model.Uid, model.Placement | None, str]]:
    """The pods whose seats have changed, what each has now, and why its former one is lost, if it is."""
    match event:
        case events.PlacementsCommitted():
            return [(one.pod.uid, one, "") for one in event.placements]
        case events.PodSeen() if event.pod.node or event.pod.finished:
            return [(event.pod.uid, None, "" if event.pod.node else "its pod has ended")]
        case events.PodSeen() if event.pod.terminating:
            return [(event.pod.uid, None, _DELETED)]
        case events.PodGone():
            return [(event.uid, None, "its pod is gone")]
        case events.PlacementReleased():
            return [(event.uid, None, event.reason if event.cause != "superseded" else "")]
        case _:
            return ()


def _lost(snapshot: snapshots.Snapshot, key: GangKey, losses: list[_Loss]) -> Iterator[effects.Effect]:
    """Seats were released, or their pods are gone: in the mode Strict those of all gangs go that are placed
    together, unless a member is bound.
    """
    gang = gangs.find(snapshot, key)
    if gang is None:
        return
    together = commitments.placed_with(snapshot, gang)
    every = [seat for one in together for seat in one.seats]
    bound = sum(seat.bound for seat in every)
    left = _given_up(snapshot, gang, together)
    subject = about(snapshot, gang)
    if subject is not None:
        stay = f"{bound} bound members stay" if bound else f"{len(every) or 'no'} seats stay"
        if left:
            stay = _GOING
        node, reason = losses[0]
        what = f"a seat on {node} is lost"
        if len(losses) > 1:
            what = f"{len(losses)} seats are lost, the first on {node}"
        yield effects.PostEvent(subject, LOST, f"gang {key}: {what}: {reason}; {stay}")
    if left:
        yield _released(gang, together, left)


def incomplete(snapshot: snapshots.Snapshot, *, missed: bool) -> Iterator[effects.Effect]:
    """Releases what is left of gangs that lost a seat, and reports it if events were missed: otherwise the
    Event of the loss has the cause.
    """
    placed = snapshot.placements.values()
    concerned = {gangs.committed_for(one) for one in placed if gangs.NAME in one.data}
    reported: set[GangKey] = set()
    for key in sorted(key for key in concerned if key is not None):
        gang = gangs.find(snapshot, key)
        if gang is None:
            continue
        together = commitments.placed_with(snapshot, gang)
        left = _given_up(snapshot, gang, together)
        if not left or any(one.ran for one in together):  # After a member has run, others go alone.
            continue
        for one in together if missed else ():
            subject, least = about(snapshot, one), commitments.kept_from(snapshot, one)
            if one.key not in reported and len(one.seats) < least and subject is not None:
                reported.add(one.key)
                held = f"{len(one.seats)} of {least} members have a seat"
                text = f"gang {one.key}: {held} after a loss; {_GOING}"
                yield effects.PostEvent(subject, LOST, text)
        yield _released(gang, together, left)


def _given_up(snapshot: snapshots.Snapshot, gang: Gang, together: tuple[Gang, ...]) -> list[gangs.Seat]:
    """The seats of gangs that are placed together which are not kept when this one has lost a seat."""
    every = [seat for one in together for seat in one.seats]
    whole = all(len(one.seats) >= commitments.kept_from(snapshot, one) for one in together)
    # After a member has run, others go alone, and are seated one by one.
    alone = any(one.ran and one.given.match == "once-satisfied" for one in together)
    if gang.given.mode == "NonStrict" or whole or alone or any(seat.bound for seat in every):
        return []
    return every


def _released(gang: Gang, together: tuple[Gang, ...], left: list[gangs.Seat]) -> effects.ReleasePlacements:
    """The release of what is left, together: a member that is bound meanwhile keeps all others."""
    members = [
        pod for one in together for pod in (*(seat.pod for seat in one.seats), *one.waiting, *one.others)
    ]
    definitions = [subject for one in together for subject in one.relies_on]
    return effects.ReleasePlacements(
        tuple(seat.pod.uid for seat in left),
        f"gang {gang.key} lost a seat before a member was bound",
        plugin=gangs.NAME,
        # The claim: a member that is not recorded yet may get a seat, too.
        subjects=(*(f"pod:{pod.uid}" for pod in members), *definitions, admission.CLAIM),
        renewed=functools.partial(_released_again, gang.key),
    )


def _released_again(key: GangKey, snapshot: snapshots.Snapshot) -> effects.ReleasePlacements | None:
    """The release of what is left of the gang; None if it is whole, or a member is bound."""
    gang = gangs.find(snapshot, key)
    if gang is None:
        return None
    together = commitments.placed_with(snapshot, gang)
    left = _given_up(snapshot, gang, together)
    return _released(gang, together, left) if left else None


def _released_unless_placed(
    key: GangKey, uid: model.Uid, snapshot: snapshots.Snapshot
) -> effects.ReleasePlacements | None:
    """The release of what is left of the gang, if a pod whose seat was given up for another one gets none in
    time; None if it has its seat.

    A bind that moves a seat appends its release first. It may be killed then, or refused the other node.
    """
    placement, pod = snapshot.placements.get(uid), snapshot.pod(uid)
    seated = placement is not None and gangs.committed_for(placement) == key
    if seated or (pod is not None and pod.node):
        return None
    found = _released_again(key, snapshot)
    if found is None:
        return None
    again = functools.partial(_released_unless_placed, key, uid)
    return replace(found, after=FOLLOWS, awaited=uid, renewed=again)


def without_node(snapshot: snapshots.Snapshot) -> Iterator[effects.Effect]:
    """Releases the seats on nodes that are gone."""
    nodes = snapshot.nodes
    lost = [uid for name, uids in admission.seats(snapshot).items() if name not in nodes for uid in uids]
    if lost:
        yield effects.ReleasePlacements(tuple(sorted(lost)), "the node of a gang's seat is gone")


def without_member(snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterator[effects.Effect]:
    """Releases the seats of pods that are being deleted, or that do not belong to the gang any more for which
    they were committed.

    One whose pod is being bound is not among them: its Binding is fenced once it is old.
    """
    seen = {event.pod.uid for event in changes.events if isinstance(event, events.PodSeen)}
    found: dict[str, list[model.Uid]] = {}
    for uid in snapshot.placements if changes.before is None else seen:
        placement, pod = snapshot.placements.get(uid), snapshot.pod(uid)
        if pod is None or placement is None or not placement.planned or gangs.NAME not in placement.data:
            continue
        if not gangs.seated(snapshot, pod, membership.of(pod)):
            found.setdefault(_LEFT, []).append(uid)
        elif pod.terminating:
            found.setdefault(_DELETED, []).append(uid)
    for reason, uids in sorted(found.items()):
        yield effects.ReleasePlacements(tuple(sorted(uids)), reason)
