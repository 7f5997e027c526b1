"""Writers for tests: they do what the recorder and the verbs do, and nothing more."""

from collections.abc import Sequence

from app.domain import counting, events, model, projecting, snapshots
from app.store import logs


def pod(uid: str, node: str = "", **labels: str) -> model.Pod:
    return model.Pod(uid=uid, namespace="blue", name=f"pod-{uid}", labels=labels, node=node)


def seen(uid: str, node: str = "", **labels: str) -> events.PodSeen:
    return events.PodSeen(pod=pod(uid, node, **labels))


def facts(
    log: logs.Log,
    snapshot: snapshots.Snapshot,
    batch: Sequence[events.AnyEvent],
    *,
    epoch: str = "",
    writer: str = "",
) -> logs.Appended:
    """As the recorder does it: the increments are right only at this very head."""
    projection = projecting.Projection(snapshot)
    projection.apply_all(batch)
    return log.append(
        logs.Batch(events=batch, increments=projection.increments),
        logs.Guard(epoch=epoch, writer=writer, head=snapshot.offset),
    )


def placement(
    log: logs.Log,
    snapshot: snapshots.Snapshot,
    subject: model.Pod,
    node: str,
    *,
    ceiling: int | None = None,
) -> logs.Appended:
    """As bind does it: under the versions that its increments depend on, and the ceilings."""
    projection = projecting.Projection(snapshot)
    projection.apply(events.PodPlaced(pod=subject, node=node))
    raised = [key for key, by in projection.increments.items() if by > 0]
    return log.append(
        logs.Batch(events=(events.PodPlaced(pod=subject, node=node),), increments=projection.increments),
        logs.Guard(
            versions={name: snapshot.version(name) for name in counting.footprint(subject, node)},
            ceilings={} if ceiling is None else dict.fromkeys(raised, ceiling),
        ),
    )


def release(log: logs.Log, snapshot: snapshots.Snapshot, released: events.PlacementReleased) -> logs.Appended:
    """As whoever takes a promise back: under the versions of the pod, its node and its policies."""
    standing = snapshot.placements[released.uid]
    projection = projecting.Projection(snapshot)
    projection.apply(released)
    subjects = counting.footprint(standing.pod, standing.node)
    return log.append(
        logs.Batch(events=(released,), increments=projection.increments),
        logs.Guard(versions={name: snapshot.version(name) for name in subjects}),
    )


def batch(note: str) -> logs.Batch:
    """One event about a pod whose label is ever so long."""
    return logs.Batch(events=[seen("heavy", note=note)])
