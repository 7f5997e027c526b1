"""The counts and versions in Redis: what they should be, and making them so.

They are written by the same call as the events and equal the fold of the log. If something else
wrote to them, or they were lost, they are rebuilt from the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis

from app.domain import projecting, snapshots
from app.store import connecting, errors, keys, logs, retrying, tailing

_FIELDS = 5000


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of a view that is not what the log says."""

    view: str
    """counts or versions."""
    field: str
    stored: int
    folded: int


def folded(
    log: logs.Log, until: int | None = None, start: snapshots.Snapshot | None = None
) -> snapshots.Snapshot:
    """The fold of the log up to an offset (None: its head), from its beginning or from a snapshot."""
    projection = projecting.Projection(start or snapshots.empty(incarnation=log.incarnation))
    while until is None or projection.offset < until:
        limit = tailing.CHUNK if until is None else min(tailing.CHUNK, until - projection.offset)
        entries = log.read(projection.offset, limit=limit)
        projection.apply_all([entry.event for entry in entries])
        if not entries:
            break
    return projection.finish()


def differences(
    client: redis.Redis, names: keys.Keys, log: logs.Log, start: snapshots.Snapshot | None = None
) -> list[Difference]:
    """Where the views in Redis differ from the fold of the log, at one and the same offset.

    ``start``: a snapshot to fold from, where the log does not reach its own beginning any more.
    """
    with connecting.translated():
        pipeline: Any = client.pipeline(transaction=True)
        pipeline.hget(names.meta, keys.HEAD).hgetall(names.counts).hgetall(names.versions)
        head, counts, versions = pipeline.execute()
    snapshot = folded(log, int(head or 0), start)
    return [
        *_differing("counts", _numbers(counts), snapshot.counts),
        *_differing("versions", _numbers(versions), snapshot.versions),
    ]


def rebuild(
    client: redis.Redis,
    names: keys.Keys,
    log: logs.Log,
    start: snapshots.Snapshot | None = None,
    *,
    timeout: float = 60.0,
) -> snapshots.Snapshot:
    """Replace counts and versions by the fold of the log, in one transaction at one offset.

    Appends may go on meanwhile, but not without a pause. Returns the snapshot whose views are now
    stored; raises StoreAway if there was no pause within the timeout (seconds).
    """
    patience = retrying.Patience(timeout)
    snapshot = folded(log, start=start)
    while not _replaced(client, names, snapshot):
        if not patience.again():
            raise errors.StoreAway("the log grows faster than its views are rebuilt: stop the writers")
        snapshot = folded(log, start=snapshot)
    return snapshot


def _replaced(client: redis.Redis, names: keys.Keys, snapshot: snapshots.Snapshot) -> bool:
    """Whether the views could be set to those of the snapshot before anything else was appended."""
    with connecting.translated():
        pipeline: Any = client.pipeline(transaction=True)
        with pipeline:
            # An append in between changes meta, and then the transaction does not happen.
            pipeline.watch(names.meta)
            if int(pipeline.hget(names.meta, keys.HEAD) or 0) != snapshot.offset:
                return False
            pipeline.multi()
            for key, view in ((names.counts, snapshot.counts), (names.versions, snapshot.versions)):
                pipeline.delete(key)
                fields = [word for item in view.items() for word in item]
                for start in range(0, len(fields), 2 * _FIELDS):
                    pipeline.execute_command("HSET", key, *fields[start : start + 2 * _FIELDS])
            try:
                pipeline.execute()
            except redis.WatchError:
                return False
    return True


def _differing(view: str, stored: Mapping[str, int], folded_: Mapping[str, int]) -> list[Difference]:
    return [
        Difference(view, field, stored.get(field, 0), folded_.get(field, 0))
        for field in sorted({*stored, *folded_})
        if stored.get(field, 0) != folded_.get(field, 0)
    ]


def _numbers(reply: Mapping[bytes | str, bytes | str]) -> dict[str, int]:
    return {connecting.text(field): int(value) for field, value in reply.items()}
