"""Releases placements on evidence that their pods are not bound by them."""

from collections.abc import Callable, Collection, Sequence

from app import telemetry
from app.domain import events, model, projections, snapshots
from app.domain.fit import node_fit
from app.framework import effects
from app.store import errors as store_errors
from app.store.log import batches, logs, readers
from app.verbs import contexts

_ATTEMPTS = 8
"""Conflicts in a row before giving up; each means that another writer has just written about the same pod."""


def release(
    state: contexts.State,
    log: logs.Log,
    uid: model.Uid,
    cause: events.Cause,
    reason: str,
    *,
    placement: model.Position | None = None,
    timeout: float = 2.0,
) -> bool:
    """Append PlacementReleased for the pod; true if it has no such placement.

    ``placement``: release only the placement made at this position; a later one, perhaps on the same node,
    may have its Binding under way. ``timeout``: seconds for each step that needs the store.

    False if the store is away or the pod is contended: the placement stays counted, which is the safe side,
    and the controller checks it with the API server later.
    """
    for _ in range(_ATTEMPTS):
        try:
            snapshot = state.catch_up(timeout=timeout)
            found = snapshot.placements.get(uid)
            if found is None:
                return True
            if placement not in (None, snapshot.placement_position(uid)):
                return False
            _append(log, snapshot, (found,), cause, reason, timeout)
        except store_errors.Conflict:
            continue
        except store_errors.StoreError:
            return False
        telemetry.metrics.RELEASED.labels(cause).inc()
        return True
    return False


def release_together(
    state: contexts.State,
    log: logs.Log,
    renewed: Callable[[snapshots.Snapshot], effects.ReleasePlacements | None],
    *,
    timeout: float = 2.0,
) -> int | None:
    """Append the release of planned placements that go together, in one call; the number released.

    ``renewed``: what is released in a state, None if nothing is. A bind that takes one of them over appends
    before it sends a Binding (decision 23): the guard expects that none has, so no Binding can exist.

    None if they cannot be released yet: the store is away, a pod is contended, one of them has a Binding,
    whose outcome may be that all stay, or the store may have lost the placement of such a Binding.
    """
    for _ in range(_ATTEMPTS):
        try:
            snapshot = state.catch_up(timeout=timeout)
            wanted = renewed(snapshot)
            uids = wanted.pods if wanted is not None else ()
            held = [found for uid in uids if (found := snapshot.placements.get(uid)) is not None]
            if wanted is None or not held:
                return 0
            if snapshot.unlisted or not all(one.planned for one in held):
                return None
            # As many as a commitment has; of gangs that were joined later, the rest is given up in turn.
            held, subjects = held[: batches.MAX_EVENTS], (*wanted.subjects, events.RUN)
            _append(log, snapshot, held, "unbound", wanted.reason, timeout, subjects)
        except store_errors.Conflict:
            continue
        except store_errors.StoreError:
            return None
        telemetry.metrics.RELEASED.labels("unbound").inc(len(held))
        return len(held)
    return None


def released_if_crowded(
    log: logs.Log,
    expected: snapshots.Snapshot,
    after: snapshots.Snapshot,
    event: events.PlacementsCommitted,
    offset: int,
    *,
    timeout: float,
) -> bool:
    """Whether a commitment at this offset was released because others filled one of its nodes.

    ``expected``: the state that it was meant to make; ``after``: that which it made. No Binding of it was
    sent. False also if the store is away, or if the bind of one of its pods has taken its place: all stay.
    """
    if after.position.incarnation != expected.position.incarnation:
        return False
    held = [after.placements.get(placement.pod.uid) for placement in event.placements]
    made = [placement for placement in held if placement is not None and placement.offset == offset]
    try:
        # Of the nodes of a large gang, others have written about very few.
        written = _written(log, after, expected.offset - 1, offset)
        if not any(_filled(expected, after, one) for one in made if one.node in written):
            return False
        _append(
            log, after, made, "superseded", "others took the capacity of the plan; it is made again", timeout
        )
    except store_errors.StoreError:
        return False
    telemetry.metrics.RELEASED.labels("superseded").inc(len(made))
    return True


def _written(log: logs.Log, after: snapshots.Snapshot, since: int, own: int) -> set[model.NodeName]:
    """The nodes that events behind an offset may have filled or changed, without our own event."""
    found: set[model.NodeName] = set()
    at = since
    while at < after.offset:
        entries = log.read(at, limit=min(after.offset - at, readers.CHUNK))
        if not entries:
            break
        for entry in entries:
            at = entry.offset
            match entry.event:
                case events.NodeSeen(node=node):
                    found.add(node.name)
                case events.PodSeen(pod=pod):
                    found.add(after.node_of(pod.uid))
                case events.PlacementsCommitted(placements=placements) if at != own:
                    found.update(placement.node for placement in placements)
    return found


def _filled(expected: snapshots.Snapshot, after: snapshots.Snapshot, placement: model.Placement) -> bool:
    """Whether others have taken the capacity of the placement on a node where it was free before."""
    node, before = after.nodes.get(placement.node), expected.nodes.get(placement.node)
    if node is None or before is None:
        return False
    return bool(node_fit.fits(after, placement.pod, node)) and not node_fit.fits(
        expected, placement.pod, before
    )


def _append(
    log: logs.Log,
    snapshot: snapshots.Snapshot,
    placements: Sequence[model.Placement],
    cause: events.Cause,
    reason: str,
    timeout: float,
    further: Collection[str] = (),
) -> None:
    """Append the release of the placements, if nothing about them has changed. Raises StoreError.

    ``further``: subjects beside them that must not have changed either.
    """
    happened = [
        events.PlacementReleased(
            uid=one.pod.uid,
            namespace=one.pod.namespace,
            name=one.pod.name,
            node=one.node,
            reason=reason,
            cause=cause,
        )
        for one in placements
    ]
    projection = projections.Projection(snapshot)
    projection.apply_all(happened)
    subjects = {subject for one in placements for subject in snapshot.schema.footprint(one.pod, one.node)}
    subjects.update(further)
    log.append(
        batches.Batch(events=happened, increments=projection.increments),
        batches.Guard(
            incarnation=snapshot.position.incarnation,
            versions={subject: snapshot.version(subject) for subject in sorted(subjects)},
        ),
        timeout=timeout,
    )
