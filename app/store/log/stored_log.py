"""Reads what the store holds of a log by plain commands: metadata, views and raw entries.

Nothing here checks that the entries continue those already read: ``readers`` does.
"""

from typing import Any

import msgspec
import redis

from app.store import errors, keys
from app.store.log import incarnations, readers
from app.store.server import connections


class StoredLog:
    """The keys of one log; thread-safe. Each method raises StoreAway."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client = client
        self._names = names

    def head(self) -> int:
        """The last offset written."""
        with connections.translated():
            return keys.number(self._client.hget(self._names.meta, keys.HEAD))

    def state(self) -> incarnations.StoreState:
        """The metadata of the store, and the server's clock and run."""
        with connections.translated():
            now: Any = self._client.time()
            about: Any = self._client.info("server")
        meta = self._hash(self._names.meta)
        incarnation, head = meta.get("incarnation", ""), keys.number(meta.get(keys.HEAD))
        return incarnations.StoreState(
            incarnation=incarnation,
            head=head,
            head_ms=keys.number(meta.get("at")) or None,
            epoch=meta.get("epoch", ""),
            writer=meta.get("writer", ""),
            former=meta.get("former", ""),
            lost=incarnations.parse_loss(meta.get("lost", ""), incarnation, head),
            recorded_ms=keys.number(meta.get("recorded")),
            run=connections.text(about["run_id"]),
            verified_run=meta.get(keys.RUN, ""),
            kubernetes=meta.get(keys.KUBERNETES, ""),
            now_ms=connections.milliseconds(now),
        )

    def consumers(self) -> dict[str, tuple[int, int]]:
        """Consumer -> its offset, and when it reported that (milliseconds by the store's clock)."""
        reported = {name: value.partition(" ") for name, value in self._hash(self._names.readers).items()}
        return {name: (keys.number(offset), keys.number(at)) for name, (offset, _, at) in reported.items()}

    def resume_versions(self) -> dict[str, str]:
        """The fields of the metadata that were set by ``Batch.marks``, such as ``rv:pods``."""
        # A later version may have written other fields, which ``topolog adopt`` must leave as they are.
        found = self._hash(self._names.meta)
        return {name: value for name, value in found.items() if name.startswith(keys.MARKS)}

    def time_of(self, offset: int) -> int | None:
        """When the entry was appended (milliseconds); None if the log does not hold it."""
        entries = self._range(f"{offset}-0", f"{offset}-0", 1)
        return keys.number(entries[0][1].get(b"t")) if entries else None

    def oldest(self) -> int:
        """The first offset that the log still holds; of an empty log the offset of its next entry."""
        entries = self._range("-", "+", 1)
        return _offset_of(entries[0][0]) if entries else self.head() + 1

    def raws(self, after: int, until: int) -> list[readers.Raw]:
        """The undecoded entries from ``after + 1`` to ``until``; raises Gap if one is missing."""
        raws = [
            readers.Raw(
                _offset_of(identity),
                keys.number(fields.get(b"t")),
                msgspec.Raw(fields.get(b"e", b"")),
                connections.text(fields.get(b"w", b"")),
            )
            for identity, fields in self._range(f"{after + 1}-0", f"{until}-0", until - after)
        ]
        for expected, raw in enumerate(raws, after + 1):
            if raw.offset != expected:
                raise errors.Gap(f"offset {expected} is missing from the log: the store is damaged")
        if len(raws) != until - after:
            raise errors.Gap(f"offset {after + len(raws) + 1} is missing from the log: the store is damaged")
        return raws

    def _range(self, first: str, last: str, count: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
        with connections.translated():
            found: Any = self._client.xrange(self._names.log, min=first, max=last, count=count)
        entries: list[tuple[bytes, dict[bytes, bytes]]] = found
        return entries

    def _hash(self, key: str) -> dict[str, str]:
        with connections.translated():
            fields = self._client.hgetall(key)
        return {connections.text(field): connections.text(value) for field, value in fields.items()}


def _offset_of(identity: bytes) -> int:
    return int(identity.partition(b"-")[0])
