"""Effects for gangs: statuses of PodGroups, Events with numbers, wake-ups, lost seats.

The phases are those of the PodGroup controllers of the sigs and of Koordinator (podgroup_controller.go), as a
projection of the state. A PodGroup without members keeps its status.
"""

from collections.abc import Collection, Iterator

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
        yield from losses.without_node(snapshot)
    yield from losses.without_member(snapshot, changes)
    if before is None:
        yield from losses.incomplete(snapshot, missed=changes.missed)
        if changes.missed:
            yield from _woken(None, snapshot, endpoints.keys(snapshot), rules, changes.peers)
        return
    for event in changes.events:
        if isinstance(event, events.PlacementsCommitted):
            yield from _placed(snapshot, event)
    yield from losses.of_events(before, snapshot, changes.events)
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
    about = losses.about(snapshot, gang)
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
