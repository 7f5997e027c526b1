"""Writers for tests, which append as the recorder and the verbs do."""

from collections.abc import Sequence

from app.domain import events, model, projections, snapshots
from app.store.log import batches, logs
from tests.support import declared


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
) -> batches.Appended:
    """As the recorder does it: the increments are valid only at this head."""
    projection = projections.Projection(snapshot)
    projection.apply_all(batch)
    return log.append(
        batches.Batch(events=batch, increments=projection.increments),
        batches.Guard(epoch=epoch, writer=writer, head=snapshot.offset),
    )


def placement(
    log: logs.Log,
    snapshot: snapshots.Snapshot,
    subject: model.Pod,
    node: str,
    *,
    ceiling: int | None = None,
) -> batches.Appended:
    """As bind does it: under the versions that its increments depend on, and the ceilings."""
    projection = projections.Projection(snapshot)
    projection.apply(events.placed(subject, node))
    raised = [key for key, by in projection.increments.items() if by > 0]
    return log.append(
        batches.Batch(events=(events.placed(subject, node),), increments=projection.increments),
        batches.Guard(
            versions={name: snapshot.version(name) for name in declared.SCHEMA.footprint(subject, node)},
            ceilings={} if ceiling is None else dict.fromkeys(raised, ceiling),
        ),
    )


def release(
    log: logs.Log, snapshot: snapshots.Snapshot, released: events.PlacementReleased
) -> batches.Appended:
    """Release a placement as the controller does: under the versions of pod, node and policies."""
    placed = snapshot.placements[released.uid]
    projection = projections.Projection(snapshot)
    projection.apply(released)
    subjects = declared.SCHEMA.footprint(placed.pod, placed.node)
    return log.append(
        batches.Batch(events=(released,), increments=projection.increments),
        batches.Guard(versions={name: snapshot.version(name) for name in subjects}),
    )


def batch(note: str) -> batches.Batch:
    """One event about a pod whose label is ever so long."""
    return batches.Batch(events=[seen("heavy", note=note)])


def epochs(log: logs.Log) -> list[tuple[int, str]]:
    """(offset, epoch) of each entry in the log; the epoch is empty if the writer had none."""
    return [(raw.offset, raw.w) for raw in log.raws(log.oldest() - 1, log.head().offset)]
