"""Releases a placement, on evidence that its pod is not bound by it."""

from app import telemetry
from app.domain import events, model, projecting
from app.store import errors as store_errors
from app.store.log import logs
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
            event = events.PlacementReleased(
                uid=uid,
                namespace=found.pod.namespace,
                name=found.pod.name,
                node=found.node,
                reason=reason,
                cause=cause,
            )
            projection = projecting.Projection(snapshot)
            projection.apply(event)
            subjects = snapshot.schema.footprint(found.pod, found.node)
            log.append(
                logs.Batch(events=(event,), increments=projection.increments),
                logs.Guard(
                    incarnation=snapshot.position.incarnation,
                    versions={subject: snapshot.version(subject) for subject in subjects},
                ),
                timeout=timeout,
            )
        except store_errors.Conflict:
            continue
        except store_errors.StoreError:
            return False
        telemetry.metrics.RELEASED.labels(cause).inc()
        return True
    return False
