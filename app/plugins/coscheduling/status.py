"""Effects for gangs: statuses of PodGroups, Events with numbers, wake-ups, lost seats.

The phases are those of the PodGroup controllers of the sigs and of Koordinator (podgroup_controller.go), as a
projection of the state. A PodGroup without members keeps its status.

Statuses follow from the members alone. Why a gang waits, and whether it can be placed now, follows from its
plan, which takes up to 33 ms among 5,000 nodes, and an event that frees capacity concerns every gang. A call
therefore plans a limited number of gangs and puts off the others, which have their turn in later calls.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from app.domain import events, model, snapshots
from app.framework import cycles, effects
from app.plugins.coscheduling import admission, endpoints, gang_model, gangs, kinds, membership
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.membership import GangKey
from app.plugins.coscheduling.seats import losses

WRITTEN = {gang_model.KOORDINATOR: kinds.KOORDINATOR.name, gang_model.SIGS: kinds.SIGS.name}
"""Family -> the kind whose status is written; kube-scheduler writes that of its own."""
WAITING, PLACED = "GangWaiting", "GangPlaced"
STARTED = "scheduleStartTime"
"""The field of the status with the time at which the first member was placed."""
WOKEN = 1000
"""Members woken at once."""
PLANNED = 20
"""Gangs that are planned in one call."""


@dataclass(frozen=True, slots=True)
class _Due:
    """What has to follow from the plan of a gang."""

    reported: bool = False
    """An Event about why it waits."""
    woken: bool = False
    """A wake-up, if it can be placed now."""
    before: tuple[snapshots.Snapshot | None, ...] = ()
    """If it is woken: the states of which one had no capacity for it, the first and the latest since it was
    put off; None: any."""


@dataclass(frozen=True, slots=True)
class _Left:
    """The gangs that have been put off, those that wait for longer first."""

    gangs: Mapping[GangKey, _Due]


def reconcile(
    snapshot: snapshots.Snapshot, changes: effects.Changes, rules: admission.GangRules
) -> Iterator[effects.Effect]:
    """The effects for the gangs that the changes concern, and for those that fit now and did not before."""
    before = changes.before
    changed = set() if before is None else _concerned(before, snapshot, changes.events)
    # After a commitment, what others lack has changed.
    all_of_them = before is None or any(map(_commits_gang, changes.events))
    concerned = endpoints.keys(snapshot) if all_of_them else changed
    for key in sorted(changed | concerned):
        gang = gangs.find(snapshot, key)
        if gang is not None:
            yield from _of_gang(gang)
    if before is None or any(isinstance(event, events.NodeGone) for event in changes.events):
        yield from losses.without_node(snapshot)
    yield from losses.without_member(snapshot, changes)
    if before is None:
        yield from losses.incomplete(snapshot, missed=changes.missed)
        woken = concerned if changes.missed else set()
    else:
        for event in changes.events:
            if isinstance(event, events.PlacementsCommitted):
                yield from _placed(snapshot, event)
        yield from losses.of_events(before, snapshot, changes.events)
        woken = endpoints.keys(snapshot) if any(map(_may_free, changes.events)) else changed | concerned
    yield from _in_turn(snapshot, _due(changes, changed, concerned, woken), changed, rules, changes.peers)


def _due(
    changes: effects.Changes, changed: set[GangKey], concerned: set[GangKey], woken: set[GangKey]
) -> dict[GangKey, _Due]:
    """What is due for each gang, first those that former calls have put off, then those that have changed."""
    found = dict(changes.left.gangs) if isinstance(changes.left, _Left) else {}
    for key in (*sorted(changed), *sorted((concerned | woken) - changed)):
        former = found.get(key, _Due())
        found[key] = _Due(
            reported=former.reported or key in concerned or key in changed,
            woken=former.woken or key in woken,
            before=_states(former, changes.before) if key in woken else former.before,
        )
    return found


def _states(former: _Due, before: snapshots.Snapshot | None) -> tuple[snapshots.Snapshot | None, ...]:
    """Capacity that was there when the gang was put off may have been taken, and freed again since."""
    return (*former.before[:1], before)


def _in_turn(
    snapshot: snapshots.Snapshot,
    due: Mapping[GangKey, _Due],
    changed: Collection[GangKey],
    rules: admission.GangRules,
    peers: cycles.Peers,
) -> Iterator[effects.Effect]:
    """What follows from the plans of the gangs whose turn it is; the others are put off.

    Those that have changed and those that have not take turns, so that neither keeps the other waiting.
    """
    waiting = [key for key in due if (gang := gangs.find(snapshot, key)) is not None and gang.waiting]
    first = (key for key in waiting if key in changed)
    rest = (key for key in waiting if key not in changed)
    turns = (key for pair in itertools.zip_longest(first, rest) for key in pair if key is not None)
    now = sorted(itertools.islice(turns, PLANNED))
    for key in now:
        if due[key].reported:
            yield from _reported(snapshot, key, rules, peers)
    yield from _woken(snapshot, {key: due[key].before for key in now if due[key].woken}, rules, peers)
    left = {key: due[key] for key in waiting if key not in now}
    if left:
        yield effects.PutOff(_Left(left))


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


def _of_gang(gang: Gang) -> Iterator[effects.PatchStatus]:
    kind = WRITTEN.get(gang.key.family)
    if kind is not None and gang.source == "GangFromPodGroupCrd":
        found = status(gang)
        if found:
            # Neither definition of a PodGroup has observedGeneration.
            stamped = (STARTED,) if found["scheduled"] else ()
            yield effects.PatchStatus(kind, gang.key.short, found, generation=False, stamped=stamped)


def _reported(
    snapshot: snapshots.Snapshot, key: GangKey, rules: admission.GangRules, peers: cycles.Peers
) -> Iterator[effects.PostEvent]:
    """An Event about why the gang waits."""
    gang = gangs.find(snapshot, key)
    about = losses.about(snapshot, gang) if gang is not None else None
    if gang is None or about is None:
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
        about = losses.about(snapshot, gang) if gang is not None else None
        if gang is not None and about is not None:
            text = f"gang {key}: {len(nodes)} members placed together, on {len(set(nodes))} nodes"
            yield effects.PostEvent(about, PLACED, text, warning=False)


# -- capacity --------------------------------------------------------------------------------------


def _woken(
    snapshot: snapshots.Snapshot,
    keys: Mapping[GangKey, tuple[snapshots.Snapshot | None, ...]],
    rules: admission.GangRules,
    peers: cycles.Peers,
) -> Iterator[effects.Effect]:
    """Wakes the members of each gang that can be placed as a whole now, and could not in a former state."""
    for key, former in keys.items():
        gang = gangs.find(snapshot, key)
        if gang is None:
            continue
        _, plan = endpoints.planned(rules, snapshot, gang, peers)
        waiting = tuple(pod for pod in gang.waiting if pod.uid in plan.seats)
        if waiting and not all(_had_capacity(before, key, rules, peers) for before in former):
            yield effects.WakePods(waiting[:WOKEN], f"gang {key} has capacity for {len(plan.pods)} members")


def _had_capacity(
    before: snapshots.Snapshot | None, key: GangKey, rules: admission.GangRules, peers: cycles.Peers
) -> bool:
    former = gangs.find(before, key) if before is not None else None
    if before is None or former is None or not former.waiting:
        return False
    return bool(endpoints.planned(rules, before, former, peers)[1].seats)
