"""Taking a promise back, on evidence."""

from app import telemetry
from app.domain import counting, events, model, projecting
from app.store import errors as store_errors
from app.store import logs
from app.verbs import contexts

_ATTEMPTS = 8
"""Conflicts in a row before giving up; each means that somebody else just wrote about the same pod."""


def release(
    state: contexts.State,
    log: logs.Log,
    uid: model.Uid,
    cause: events.Cause,
    reason: str,
    *,
    promise: model.Position | None = None,
    timeout: float = 2.0,
) -> bool:
    """Append PlacementReleased for the pod; true if there is no such promise (any more).

    ``promise``: only the promise made at this position is meant; another one, be it of the same node, may be
    somebody's whose Binding is under way. ``timeout``: seconds for each step that needs the store.

    False if the store is away or the pod is contended: the promise stays counted, which is the safe
    side, and the controller asks the API server again.
    """
    for _ in range(_ATTEMPTS):
        try:
            snapshot = state.catch_up(timeout=timeout)
            standing = snapshot.placements.get(uid)
            if standing is None:
                return True
            if promise not in (None, snapshot.promise(uid)):
                return False
            event = events.PlacementReleased(
                uid=uid,
                namespace=standing.pod.namespace,
                name=standing.pod.name,
                node=standing.node,
                reason=reason,
                cause=cause,
            )
            projection = projecting.Projection(snapshot)
            projection.apply(event)
            subjects = counting.footprint(standing.pod, standing.node)
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
