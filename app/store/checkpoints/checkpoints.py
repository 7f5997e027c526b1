"""Stores checkpoints: whole snapshots, so that a replay need not start at the first entry of the log.

A checkpoint is a serialized snapshot, cut into values of some hundred kilobytes, and a header that names
them. The values are written first and expire unless the header is written: a writer that dies leaves nothing
behind, one that fails deletes them, and a reader never sees half of one. Reading verifies the digest.
"""

import contextlib
import math
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import redis

from app.domain import schema as schemas
from app.domain import snapshots
from app.store import errors, keys, snapshot_format
from app.store.server import connections

_FLOATING_SECONDS = 600
"""Lifetime of values without a header: much longer than writing takes."""
_NEWEST = 2
"""The newest are never removed: if one is damaged, there is another."""


class Checkpoints:
    """The checkpoints of one cluster; thread-safe."""

    def __init__(self, client: redis.Redis, names: keys.Keys, schema: schemas.Schema) -> None:
        self.schema = schema
        """By which checkpoints are read."""
        self._client = client
        self._names = names

    def headers(self) -> list[snapshot_format.Header]:
        """All headers, the newest first; unreadable ones are skipped."""
        with connections.translated():
            found = self._client.hgetall(self._names.checkpoints)
        read = []
        for raw in found.values():
            with contextlib.suppress(errors.Damaged):
                read.append(snapshot_format.header_of(raw))
        return sorted(read, key=lambda header: header.offset, reverse=True)

    def write(self, snapshot: snapshots.Snapshot, at_ms: int) -> snapshot_format.Header:
        """Store a snapshot whose last event was appended at ``at_ms``."""
        return self.keep(snapshot_format.serialize(snapshot, cluster=self._names.cluster, at_ms=at_ms))

    def keep(self, serialized: snapshot_format.SerializedSnapshot) -> snapshot_format.Header:
        """Write a snapshot: readers see all of it or nothing. One that is stored at the offset is kept."""
        header = msgspec.structs.replace(serialized.header, parts=secrets.token_hex(4))
        values = self._values(header)
        with connections.translated():
            try:
                for key, member in zip(values, serialized.members, strict=True):
                    self._client.set(key, member, ex=_FLOATING_SECONDS)
                while True:
                    with contextlib.suppress(redis.WatchError):
                        return self._settled(header, values)
            except BaseException:
                # What a full store has accepted of it would keep the store full until it expires.
                with contextlib.suppress(redis.RedisError, OSError):
                    self._discard(header, values)
                raise

    def _settled(self, header: snapshot_format.Header, values: Sequence[str]) -> snapshot_format.Header:
        """Persist the values and write the header; raises WatchError."""
        names, field = self._names, str(header.offset)
        pipeline: Any = self._client.pipeline(transaction=True)
        with pipeline:
            pipeline.watch(names.checkpoints, *values)
            present = pipeline.hget(names.checkpoints, field)
            with contextlib.suppress(errors.Damaged):  # What is no header is replaced.
                if present is not None:
                    kept = snapshot_format.header_of(present)
                    pipeline.unlink(*values)
                    return kept
            if pipeline.exists(*values) != len(values):
                raise errors.StoreAway(
                    "writing a checkpoint took too long: its first values are gone already"
                )
            pipeline.multi()
            for key in values:
                pipeline.persist(key)
            pipeline.hset(names.checkpoints, field, snapshot_format.encoded(header))
            pipeline.execute()
        return header

    def _discard(self, header: snapshot_format.Header, values: Sequence[str]) -> None:
        """Delete the values, unless their header was written and only the reply was lost.

        If it is written meanwhile, this raises WatchError; later it cannot be, as its writer watches them.
        """
        names = self._names
        pipeline: Any = self._client.pipeline(transaction=True)
        with pipeline:
            pipeline.watch(names.checkpoints)
            if pipeline.hget(names.checkpoints, str(header.offset)) != snapshot_format.encoded(header):
                pipeline.multi()
                pipeline.unlink(*values)
                pipeline.execute()

    def read(
        self, header: snapshot_format.Header, *, incarnation: str, indexed: frozenset[str] = frozenset()
    ) -> snapshots.Snapshot:
        """The snapshot of a checkpoint; raises Damaged or StoreAway."""
        return snapshot_format.deserialize(
            header, self._members(header), schema=self.schema, incarnation=incarnation, indexed=indexed
        )

    def serialized(self, header: snapshot_format.Header) -> snapshot_format.SerializedSnapshot:
        """The checkpoint, not verified."""
        return snapshot_format.SerializedSnapshot(header, self._members(header))

    def remove(self, header: snapshot_format.Header) -> None:
        """Delete a checkpoint."""
        with connections.translated():
            pipeline: Any = self._client.pipeline(transaction=True)
            pipeline.hdel(self._names.checkpoints, str(header.offset))
            pipeline.unlink(*self._values(header))
            pipeline.execute()

    def forget(self, field: str) -> bool:
        """Delete a checkpoint by its field; if its header is unreadable, its values are not deleted.

        ``field``: as it is shown; its bytes may not be text. False if there was none.
        """
        gone = False
        with connections.translated():
            found: Any = self._client.hgetall(self._names.checkpoints)
        for name, raw in found.items():
            if connections.text(name) == field:
                with contextlib.suppress(errors.Damaged):
                    self.remove(snapshot_format.header_of(raw))
                with connections.translated():
                    self._client.hdel(self._names.checkpoints, name)
                gone = True
        return gone

    def _members(self, header: snapshot_format.Header) -> list[bytes]:
        members: list[bytes] = []
        for key in self._values(header):
            try:
                with connections.translated():
                    member = self._client.get(key)
            except errors.StoreAway:
                raise
            except errors.StoreError as error:
                raise errors.Damaged(
                    f"a part of the checkpoint at offset {header.offset}: {error}"
                ) from error
            if not isinstance(member, bytes):
                raise errors.Damaged(
                    f"the checkpoint at offset {header.offset} has lost a part: {key} is missing"
                )
            members.append(member)
        return members

    def _values(self, header: snapshot_format.Header) -> list[str]:
        return [self._names.checkpoint(header.offset, header.parts, number) for number in range(header.lines)]


def superfluous(offsets: Sequence[int], limit: int) -> list[int]:
    """Which checkpoints to delete so that at most ``limit`` are left.

    The spacing grows with age: the one whose gap is the smallest for its age is deleted first. The oldest
    and the two newest are kept.
    """
    kept = sorted(offsets)
    gone = []
    while len(kept) > max(limit, _NEWEST + 1):
        head = kept[-1]
        inner = range(1, len(kept) - _NEWEST)
        least = min(
            inner, key=lambda at: math.log(head - kept[at - 1] + 1) - math.log(head - kept[at + 1] + 1)
        )
        gone.append(kept.pop(least))
    return gone
