"""The cluster as it was: the snapshot at any offset or time that the log still reaches."""

import threading
from collections import OrderedDict
from collections.abc import Iterator

from app.domain import events, model, projecting, snapshots
from app.store import errors, following, logs, tailing

_KEPT = 16


class Histories:
    """Past snapshots, folded from the nearest one at hand; thread-safe, bounded."""

    def __init__(self, log: logs.Log, follower: following.Follower, *, kept: int = _KEPT) -> None:
        self._log = log
        self._follower = follower
        self._kept = kept
        self._cache: OrderedDict[int, snapshots.Snapshot] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, offset: int | None = None, time_ms: int | None = None) -> snapshots.Snapshot:
        """The snapshot at exactly that offset, or after the last event that had happened by that time.

        Without either, the snapshot at the head. Raises Beyond, Trimmed, Rewound or StoreAway.
        """
        if offset is None:
            if time_ms is None:
                return self._follower.catch_up()
            offset = self.offset_at(time_ms)
        if offset < 0:
            raise errors.Beyond(offset, self._follower.snapshot.offset)
        base = self._nearest(offset)
        if base.offset != offset:
            base = self._folded(base, offset)
        return base

    def of(self, position: model.Position) -> snapshots.Snapshot:
        """The snapshot at a position; raises Superseded besides if it is of another incarnation."""
        self.check(position.incarnation)
        return self.at(position.offset)

    def check(self, incarnation: str) -> None:
        """Raise Superseded unless the log is of this incarnation."""
        present = self._log.incarnation
        if incarnation != present:
            raise errors.Superseded(incarnation, present, self._log.oldest())

    def offset_at(self, time_ms: int) -> int:
        """The offset of the last event appended by that time (milliseconds); 0 if there was none.

        If the store's clock was set back in between, of one such event.
        """
        low, high = 0, self._log.head().offset
        while low < high:
            middle = (low + high + 1) // 2
            try:
                (entry,) = self._log.read(middle - 1, limit=1)
            except errors.Trimmed as trimmed:
                if trimmed.oldest > high:
                    raise
                low = trimmed.oldest - 1
                continue
            if entry.at_ms <= time_ms:
                low = middle
            else:
                high = middle - 1
        return low

    def entries(
        self,
        since: int,
        until: int | None = None,
        *,
        kind: str | None = None,
        subject: str | None = None,
        limit: int = 100,
    ) -> list[tailing.Entry]:
        """The entries at offsets ``since`` to ``until``, both included, oldest first.

        ``kind`` is an event's tag (``PodSeen``), ``subject`` what it is about (``pod:UID``).
        """
        found: list[tailing.Entry] = []
        for entry in self._entries(max(0, since - 1), until):
            if kind is not None and type(entry.event).__name__ != kind:
                continue
            if subject is not None and subject not in projecting.touched(entry.event):
                continue
            found.append(entry)
            if len(found) == limit:
                break
        return found

    def _entries(self, after: int, until: int | None) -> Iterator[tailing.Entry]:
        while until is None or after < until:
            entries = self._log.read(after)
            for entry in entries:
                if until is not None and entry.offset > until:
                    return
                yield entry
            if not entries:
                return
            after = entries[-1].offset

    def _nearest(self, offset: int) -> snapshots.Snapshot:
        start = self._follower.nearest(offset)
        with self._lock:
            present = self._follower.snapshot.position.incarnation
            for past, kept in list(self._cache.items()):
                if kept.position.incarnation != present:
                    del self._cache[past]
                elif kept.offset <= offset and (start is None or kept.offset > start.offset):
                    start = kept
            if start is not None and start.offset in self._cache:
                self._cache.move_to_end(start.offset)
        if start is not None:
            return start
        now = self._follower.snapshot
        return snapshots.empty(indexed=now.indexed, incarnation=now.position.incarnation)

    def _folded(self, base: snapshots.Snapshot, offset: int) -> snapshots.Snapshot:
        projection = projecting.Projection(base)
        while projection.offset < offset:
            entries = self._log.read(projection.offset, limit=min(tailing.CHUNK, offset - projection.offset))
            if not entries:
                raise errors.Beyond(offset, projection.offset)
            past: list[events.AnyEvent] = [entry.event for entry in entries]
            projection.apply_all(past)
        snapshot = projection.finish()
        with self._lock:
            self._cache[offset] = snapshot
            while len(self._cache) > self._kept:
                self._cache.popitem(last=False)
        return snapshot
