"""Effects for gangs: statuses of PodGroups, Events with numbers, wake-ups, lost seats.

The phases are those of the PodGroup controllers of the sigs and of Koordinator (podgroup_controller.go), as a
projection of the state. A PodGroup without members keeps its status.
"""

import functools
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from app.domain import events, model, snapshots
from app.framework import cycles, effects
from app.plugins.coscheduling import admission, endpoints, gang_model, gangs, kinds, membership
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.membership import GangKey
from app.plugins.coscheduling.seats import commitments

WRITTEN = {gang_model.KOORDINATOR: kinds.KOORDINATOR.name, gang_model.SIGS: kinds.SIGS.name}
"""Family -> the kind whose status is written; kube-scheduler writes that of its own."""
WAITING, PLACED, LOST = "GangWaiting", "GangPlaced", "GangLostSeat"
STARTED = "scheduleStartTime"
"""The field of the status with the time at which the first member was placed."""
WOKEN = 1000
"""Members woken at once."""


def reconcile(
    snapshot: snapshots.Snapshot, changes: effects.Changes, rules: admission.GangRules
) -> Iterator[effects.Effect]:
    """The effects for the gangs that the changes concern, and for those that fit now and did not before."""
    before = changes.before
    concerned = endpoints.keys(snapshot) if before is None else _concerned(before, snapshot, changes.events)
    if any(map(_commits_gang, changes.events)):
        concerned |= endpoints.keys(snapshot)  # What others lack has changed.
    for key in sorted(concerned):
        gang = gangs.find(snapshot, key)
        if gang is not None:
            yield from _of_gang(snapshot, gang, rules, changes.peers)
    if before is None or any(isinstance(event, events.NodeGone) for event in changes.events):
        yield from _without_node(snapshot)
    yield from _of_former_members(snapshot, changes)
    if before is None:
        yield from _incomplete(snapshot, missed=changes.missed)
        if changes.missed:
            yield from _woken(None, snapshot, endpoints.keys(snapshot), rules, changes.peers)
        return
    yield from _of_seats(before, snapshot, changes.events)
    everyone = endpoints.keys(snapshot) if any(map(_may_free, changes.events)) else concerned
    yield from _woken(before, snapshot, everyone, rules, changes.peers)


def _concerned(
    before: snapshots.Snapshot, after: snapshots.Snapshot, happened: tuple[events.AnyEvent, ...]
) -> set[GangKey]:
    """The gangs whose members or definitions have changed, also those that a pod has left, and those that are
    placed together with one of them.
    """
    found: set[GangKey | None] = set()
    families = {kind.name: family for family, kind in kinds.OF_FAMILY.items()}
    groups: set[model.NamespacedName] = set()
    workloads: set[model.NamespacedName] = set()
    for event in happened:
        match event:
            case events.PodSeen():
                former = before.pod(event.pod.uid)
                found.update(membership.of(pod) for pod in (event.pod, former) if pod is not None)
            case events.PlacementsCommitted():
                found.update(membership.of(placement.pod) for placement in event.placements)
            case events.PodGone() | events.PlacementReleased():
                pod = before.pod(event.uid) or after.pod(event.uid)
                found.add(membership.of(pod) if pod is not None else None)
            case events.ObjectObserved() | events.ObjectGone() if event.kind in families:
                found.add(GangKey(families[event.kind], *event.identity.split("/", 1)))
                if event.kind == kinds.NATIVE.name:
                    groups.add(event.identity)
            case events.ObjectObserved() | events.ObjectGone() if event.kind == kinds.WORKLOADS.name:
                workloads.add(event.identity)
            case _:
                pass
    found.update(_inside(after, groups, workloads))
    keys = {key for key in found if key is not None}
    changed = (gangs.find(state, key) for state in (before, after) for key in keys)
    return keys.union(*(gang.together for gang in changed if gang is not None))


def _inside(
    snapshot: snapshots.Snapshot,
    groups: Collection[model.NamespacedName],
    workloads: Collection[model.NamespacedName],
) -> Iterator[GangKey | None]:
    """The gangs with a member in one of these groups of kube-scheduler, or in any of these Workloads."""
    values = [one.split("/", 1) for one in groups]
    for namespace, mark, value in snapshot.labelled if workloads else ():
        name, slash, _ = value.partition("/")
        if mark == model.GROUP and slash and f"{namespace}/{name}" in workloads:
            values.append([namespace, value])
    for namespace, value in values:
        yield from map(membership.of, snapshot.siblings(namespace, model.GROUP, value))


def _commits_gang(event: events.AnyEvent) -> bool:
    """Whether a gang was placed: the binds of its members commit single placements."""
    return isinstance(event, events.PlacementsCommitted) and len(event.placements) > 1


def _may_free(event: events.AnyEvent) -> bool:
    """Whether the event may free capacity, or change where members may go."""
    match event:
        case events.PodSeen():
            return event.pod.finished
        case events.PodGone() | events.PlacementReleased() | events.NodeSeen() | events.NodeGone():
            return True
        case events.ObjectObserved() | events.ObjectGone():
            return event.kind == kinds.TOPOLOGIES.name
        case _:
            return False


# -- the gang itself ---------------------------------------------------------------------------


def _of_gang(
    snapshot: snapshots.Snapshot, gang: Gang, rules: admission.GangRules, peers: cycles.Peers
) -> Iterator[effects.Effect]:
    kind = WRITTEN.get(gang.key.family)
    if kind is not None and gang.source == "GangFromPodGroupCrd":
        found = status(gang)
        if found:
            # Neither definition of a PodGroup has observedGeneration.
            stamped = (STARTED,) if found["scheduled"] else ()
            yield effects.PatchStatus(kind, gang.key.short, found, generation=False, stamped=stamped)
    about = _about(snapshot, gang)
    if about is None or not gang.waiting:
        return
    question, plan = endpoints.planned(rules, snapshot, gang, peers)
    if plan.reason:
        missing = endpoints.missing(gang, question, plan)
        yield effects.PostEvent(about, WAITING, f"{plan.reason}: {missing}" if missing else plan.reason)


def status(gang: Gang) -> dict[str, object]:
    """The status of the PodGroup; empty if it should stay as it is."""
    # Beside those that still have to be placed together, finished ones are of an earlier run.
    finished = gang.finished if gang.satisfied or not gang.waiting else ()
    members = (*finished, *(seat.pod for seat in gang.seats), *gang.waiting, *gang.others)
    if not members:
        return {}
    succeeded = sum(pod.phase == "Succeeded" for pod in members)
    failed = sum(pod.phase == "Failed" for pod in members)
    running = sum(pod.phase == "Running" for pod in members)
    scheduled = len(gang.seats) + len(finished)
    phase = _phase(gang, scheduled, running, succeeded, failed)
    if not phase:
        return {}
    owners = sorted({f"{pod.namespace}/{owner.name}" for pod in members for owner in pod.owners})
    found: dict[str, object] = {"phase": phase}
    found |= {"scheduled": scheduled, "running": running, "succeeded": succeeded, "failed": failed}
    return found | ({"occupiedBy": owners[0]} if owners else {})


def _phase(gang: Gang, scheduled: int, running: int, succeeded: int, failed: int) -> str:
    """The phase; empty if the members that are left do not decide it."""
    minimum = max(1, gang.minimum)
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    if succeeded + running >= minimum:
        return "Running"
    if gang.finished and not (gang.seats or gang.waiting):
        return ""  # Some of its members were deleted after it had ended.
    if scheduled >= minimum:
        return "Scheduled"
    if gang.present >= minimum:
        return "PreScheduling" if gang.key.family == gang_model.KOORDINATOR else "Scheduling"
    return "Pending"


def _about(snapshot: snapshots.Snapshot, gang: Gang) -> model.Pod | effects.Involved | None:
    """What Events are about: the PodGroup, or the first waiting member without one."""
    kind = kinds.OF_FAMILY[gang.key.family]
    held = snapshot.get(kind, gang.key.short)
    if held is None:
        return next(iter(gang.waiting), None) or next((seat.pod for seat in gang.seats), None)
    version = f"{kind.group}/{kind.versions[0]}"
    return effects.Involved(version, kind.manifest, held.namespace, held.name, held.uid)


# -- seats -------------------------------------------------------------------------------------


_LEFT = "the pod has left the gang of its seat"
_GOING = "what is left is released, unless a member is bound first"
"""Without a number: the Event of the loss of these seats has that of those which were released."""


class _Loss(NamedTuple):
    """A seat that was lost."""

    node: model.NodeName
    reason: str


def _placed(snapshot: snapshots.Snapshot, event: events.PlacementsCommitted) -> Iterator[effects.Effect]:
    """An Event about each gang that was committed."""
    if not _commits_gang(event):
        return
    together: dict[GangKey, list[model.NodeName]] = {}
    for placement in event.placements:
        key = membership.of(placement.pod)
        if key is not None and gangs.NAME in placement.data:
            together.setdefault(key, []).append(placement.node)
    for key, nodes in sorted(together.items()):
        gang = gangs.find(snapshot, key)
        about = _about(snapshot, gang) if gang is not None else None
        if gang is not None and about is not None:
            text = f"gang {key}: {len(nodes)} members placed together, on {len(set(nodes))} nodes"
            yield effects.PostEvent(about, PLACED, text, warning=False)


def _of_seats(
    before: snapshots.Snapshot, snapshot: snapshots.Snapshot, happened: tuple[events.AnyEvent, ...]
) -> Iterator[effects.Effect]:
    """The effects of seats that were taken or lost, also of those that were both within the events.

    The seats that a gang has lost are one effect: each that is given up for another is lost in turn.
    """
    changed: dict[model.Uid, model.Placement | None] = {}
    lost: dict[GangKey, list[_Loss]] = {}
    for event in happened:
        if isinstance(event, events.PlacementsCommitted):
            yield from _placed(snapshot, event)
        for uid, now, reason in _changed(event):
            former, changed[uid] = changed.get(uid, before.placements.get(uid)), now
            key = gangs.committed_for(former) if former and gangs.NAME in former.data else None
            if key is None or former is None:
                continue
            if now is not None and gangs.committed_for(now) != key:
                reason = _LEFT
            if reason:
                lost.setdefault(key, []).append(_Loss(former.node, reason))
    for key, losses in sorted(lost.items()):
        yield from _lost(snapshot, key, losses)


def _changed(event: events.AnyEvent) -> Iterable[tuple[model.Uid, model.Placement | None, str]]:
    """The pods whose seats have changed, what each has now, and why its former one is lost, if it is."""
    match event:
        case events.PlacementsCommitted():
            return [(one.pod.uid, one, "") for one in event.placements]
        case events.PodSeen() if event.pod.node or event.pod.finished:
            return [(event.pod.uid, None, "" if event.pod.node else "its pod has ended")]
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
    about = _about(snapshot, gang)
    if about is not None:
        stay = f"{bound} bound members stay" if bound else f"{len(every) or 'no'} seats stay"
        if left:
            stay = _GOING
        node, reason = losses[0]
        what = f"a seat on {node} is lost"
        if len(losses) > 1:
            what = f"{len(losses)} seats are lost, the first on {node}"
        yield effects.PostEvent(about, LOST, f"gang {key}: {what}: {reason}; {stay}")
    if left:
        yield _released(gang, together, left)


def _incomplete(snapshot: snapshots.Snapshot, *, missed: bool) -> Iterator[effects.Effect]:
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
            about, least = _about(snapshot, one), commitments.kept_from(snapshot, one)
            if one.key not in reported and len(one.seats) < least and about is not None:
                reported.add(one.key)
                held = f"{len(one.seats)} of {least} members have a seat"
                text = f"gang {one.key}: {held} after a loss; {_GOING}"
                yield effects.PostEvent(about, LOST, text)
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


def _without_node(snapshot: snapshots.Snapshot) -> Iterator[effects.Effect]:
    """Releases the seats on nodes that are gone."""
    nodes = snapshot.nodes
    lost = [uid for name, uids in admission.seats(snapshot).items() if name not in nodes for uid in uids]
    if lost:
        yield effects.ReleasePlacements(tuple(sorted(lost)), "the node of a gang's seat is gone")


def _of_former_members(snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterator[effects.Effect]:
    """Releases the seats of pods that do not belong to the gang any more for which they were committed.

    One whose pod is being bound is not among them: its Binding is fenced once it is old.
    """
    seen = {event.pod.uid for event in changes.events if isinstance(event, events.PodSeen)}
    moved = []
    for uid in snapshot.placements if changes.before is None else seen:
        placement, pod = snapshot.placements.get(uid), snapshot.pod(uid)
        if pod is None or placement is None or not placement.planned or gangs.NAME not in placement.data:
            continue
        if not gangs.seated(snapshot, pod, membership.of(pod)):
            moved.append(uid)
    if moved:
        yield effects.ReleasePlacements(tuple(sorted(moved)), _LEFT)


# -- capacity --------------------------------------------------------------------------------------


def _woken(
    before: snapshots.Snapshot | None,
    after: snapshots.Snapshot,
    keys: set[GangKey],
    rules: admission.GangRules,
    peers: cycles.Peers,
) -> Iterator[effects.Effect]:
    """Wakes the members of each gang that can be placed as a whole now, and could not before."""
    for key in sorted(keys):
        gang = gangs.find(after, key)
        if gang is None or not gang.waiting:
            continue
        _, plan = endpoints.planned(rules, after, gang, peers)
        waiting = tuple(pod for pod in gang.waiting if pod.uid in plan.seats)
        if waiting and (before is None or not _had_capacity(before, key, rules, peers)):
            yield effects.WakePods(waiting[:WOKEN], f"gang {key} has capacity for {len(plan.pods)} members")


def _had_capacity(
    before: snapshots.Snapshot, key: GangKey, rules: admission.GangRules, peers: cycles.Peers
) -> bool:
    former = gangs.find(before, key)
    if former is None or not former.waiting:
        return False
    return bool(endpoints.planned(rules, before, former, peers)[1].seats)
