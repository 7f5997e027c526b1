"""Compares the counts and versions in Redis with the fold of the log, at one and the same offset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.domain import projections, snapshots
from app.store import keys, stores
from app.store.server import connections
from tests.support import declared


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of a view that differs from the fold."""

    view: str
    """counts or versions."""
    field: str
    stored: int
    folded: int


def folded(store: stores.Store, until: int) -> snapshots.Snapshot:
    """The fold of the log from its first entry, event by event."""
    snapshot = snapshots.empty(schema=declared.SCHEMA, incarnation=store.log.incarnation)
    while snapshot.offset < until:
        for entry in store.log.read(snapshot.offset, limit=min(1000, until - snapshot.offset)):
            snapshot = projections.project(snapshot, entry.event)
    return snapshot


def differences(store: stores.Store) -> list[Difference]:
    """Where the views in Redis differ from the fold; the log must still have its first entry."""
    pipeline: Any = store.client.pipeline(transaction=True)
    pipeline.hget(store.keys.meta, keys.HEAD).hgetall(store.keys.counts).hgetall(store.keys.versions)
    head, counts, versions = pipeline.execute()
    snapshot = folded(store, int(head or 0))
    return [
        *_differing("counts", _numbers(counts), snapshot.counts),
        *_differing("versions", _numbers(versions), snapshot.versions),
    ]


def _differing(view: str, stored: Mapping[str, int], expected: Mapping[str, int]) -> list[Difference]:
    return [
        Difference(view, field, stored.get(field, 0), expected.get(field, 0))
        for field in sorted({*stored, *expected})
        if stored.get(field, 0) != expected.get(field, 0)
    ]


def _numbers(reply: Mapping[bytes | str, bytes | str]) -> dict[str, int]:
    return {connections.text(field): int(value) for field, value in reply.items()}
