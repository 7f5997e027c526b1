"""Checkpoints in the store: whole snapshots, so that nobody has to read the log from its beginning.

A checkpoint is an image cut into values of some hundred kilobytes, and a header that names them. The
values are written first and expire by themselves until the header is there: a writer that dies leaves
nothing behind, and a reader never sees half of one. Reading proves the digest.
"""

import contextlib
import math
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import redis

from app.domain import snapshots
from app.store import connecting, errors, images, keys

_FLOATING_SECONDS = 600
"""How long values without a header last: far more than writing takes."""
_NEWEST = 2
"""The newest are never thinned out: should one be damaged, there is another."""


class Checkpoints:
    """The checkpoints of one cluster; thread-safe."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client = client
        self._names = names

    def headers(self) -> list[images.Header]:
        """All that there are, the newest first; what cannot be read is passed over."""
        with connecting.translated():
            found = self._client.hgetall(self._names.checkpoints)
        read = []
        for raw in found.values():
            with contextlib.suppress(errors.Damaged):
                read.append(images.header_of(raw))
        return sorted(read, key=lambda header: header.offset, reverse=True)

    def write(self, snapshot: snapshots.Snapshot, at_ms: int) -> images.Header:
        """Keep a snapshot whose last event was appended at ``at_ms``."""
        return self.keep(images.freeze(snapshot, cluster=self._names.cluster, at_ms=at_ms))

    def keep(self, image: images.Image) -> images.Header:
        """Write an image: all of it or, for readers, nothing. If the offset has one, that one stays."""
        header = msgspec.structs.replace(image.header, parts=secrets.token_hex(4))
        values = self._values(header)
        with connecting.translated():
            for key, member in zip(values, image.members, strict=True):
                self._client.set(key, member, ex=_FLOATING_SECONDS)
            while True:
                with contextlib.suppress(redis.WatchError):
                    return self._settled(header, values)

    def _settled(self, header: images.Header, values: Sequence[str]) -> images.Header:
        """Let the values stay, and name them in the header's place; raises WatchError."""
        names, field = self._names, str(header.offset)
        pipeline: Any = self._client.pipeline(transaction=True)
        with pipeline:
            pipeline.watch(names.checkpoints, *values)
            present = pipeline.hget(names.checkpoints, field)
            if present is not None:
                pipeline.unlink(*values)
                return images.header_of(present)
            if pipeline.exists(*values) != len(values):
                raise errors.StoreAway(
                    "writing a checkpoint took too long: its first values are gone already"
                )
            pipeline.multi()
            for key in values:
                pipeline.persist(key)
            pipeline.hset(names.checkpoints, field, images.encoded(header))
            pipeline.execute()
        return header

    def read(
        self, header: images.Header, *, incarnation: str, indexed: frozenset[str] = frozenset()
    ) -> snapshots.Snapshot:
        """The snapshot of a checkpoint; raises Damaged or StoreAway."""
        return images.thaw(header, self._members(header), incarnation=incarnation, indexed=indexed)

    def image(self, header: images.Header) -> images.Image:
        """The checkpoint as it is, not proven."""
        return images.Image(header, self._members(header))

    def remove(self, header: images.Header) -> None:
        """Let one go."""
        with connecting.translated():
            pipeline: Any = self._client.pipeline(transaction=True)
            pipeline.hdel(self._names.checkpoints, str(header.offset))
            pipeline.unlink(*self._values(header))
            pipeline.execute()

    def forget(self, field: str) -> None:
        """Let one go by its field; of one whose header cannot be read the values stay behind."""
        with connecting.translated():
            raw: Any = self._client.hget(self._names.checkpoints, field)
        with contextlib.suppress(errors.Damaged):
            if raw is not None:
                self.remove(images.header_of(raw))
        with connecting.translated():
            self._client.hdel(self._names.checkpoints, field)

    def _members(self, header: images.Header) -> list[bytes]:
        members: list[bytes] = []
        for key in self._values(header):
            try:
                with connecting.translated():
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

    def _values(self, header: images.Header) -> list[str]:
        return [self._names.checkpoint(header.offset, header.parts, number) for number in range(header.lines)]


def superfluous(offsets: Sequence[int], most: int) -> list[int]:
    """Which of the checkpoints to let go so that at most so many are left.

    The older they are, the thinner they lie: always the one goes whose gap is the smallest for its age.
    The oldest and the two newest stay.
    """
    kept = sorted(offsets)
    gone = []
    while len(kept) > max(most, _NEWEST + 1):
        head = kept[-1]
        inner = range(1, len(kept) - _NEWEST)
        least = min(
            inner, key=lambda at: math.log(head - kept[at - 1] + 1) - math.log(head - kept[at + 1] + 1)
        )
        gone.append(kept.pop(least))
    return gone
