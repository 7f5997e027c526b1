"""Provides past snapshots: at any offset or time that checkpoints, log and archive cover.

A past snapshot is folded from the nearest earlier one: a recent one, a cached one, or a
checkpoint. The events are read from the log in pieces with pauses (read_pace) and, where it was trimmed, from
the archive.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from app import telemetry
from app.domain import event_subjects, events, model, projections, snapshots
from app.store import errors
from app.store.checkpoints import archives, recovery_points
from app.store.log import codecs, logs, readers
from app.store.state import fold_limit, followers, gc_pause, read_pace

_KEPT = 16
_ORIGINS = 3
"""Snapshots of one origin share what did not change between them; of different origins nothing."""
_PIECE = 5000
"""Archived entries read at a time."""
_PATIENCE = 5.0
"""Seconds that a caller waits for other folds: a cold fold takes less than one."""
_READ = 100
"""Entries read at a time if some of them may not be wanted."""
_FIRST = 20
"""Entries of the first read, whose size is not known: MOST_BYTES if they are the largest that are usual."""
MOST_BYTES = 1024**2
"""Bytes of encoded events that are held at once, or one event: decoded they take several times as much. A
usual read of 1,000 entries has less."""


class Part(NamedTuple):
    """The entries of a part of a range, oldest first."""

    entries: list[readers.Entry]
    behind: int
    """The offset at which the rest of the range begins; behind the range if there is none."""


class _Kept(NamedTuple):
    snapshot: snapshots.Snapshot
    origin: int
    """The offset of the snapshot that the first fold started from."""


class Histories:
    """Past snapshots, folded from the nearest one available; thread-safe, bounded."""

    def __init__(
        self,
        log: logs.Log,
        follower: followers.Follower,
        begin: recovery_points.RecoveryPoints | None = None,
        archive: archives.Archive | None = None,
        *,
        kept: int = _KEPT,
        patience: float = _PATIENCE,
        pace: read_pace.Pace | None = None,
    ) -> None:
        """``kept``: how many past snapshots are cached, folded from three checkpoints at most.

        ``patience``: seconds that a caller waits for the folds of others; ``pace``: of the reads of the log.
        """
        self._log = log
        self._follower = follower
        self._begin = begin
        self._archive = archive
        self._kept = kept
        self._pace = pace or read_pace.Pace()
        self._cache: OrderedDict[int, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._folds: fold_limit.FoldLimit[snapshots.Snapshot] = fold_limit.FoldLimit(patience=patience)

    def at(
        self,
        offset: int | None = None,
        time_ms: int | None = None,
        *,
        attended: fold_limit.Check = fold_limit.always_attended,
    ) -> snapshots.Snapshot:
        """The snapshot at exactly that offset, or after the last event appended by that time.

        Without either, the snapshot at the head. Raises Beyond, Trimmed, Rewound, Busy or StoreAway, and what
        ``attended`` raises: it is called at least once for 5,000 events, and what was folded is dropped then.
        """
        if offset is None:
            if time_ms is None:
                return self._follower.catch_up()
            offset = self.offset_at(time_ms)
        if offset < 0:
            raise errors.Beyond(offset, self._follower.snapshot.offset)
        near = self._near(offset)
        if near is not None and near.snapshot.offset == offset:
            return near.snapshot
        return self._folds.at(offset, lambda check: self._made(offset, check), attended)

    def appended_ms(self, offset: int) -> int | None:
        """When the event at the offset was appended; None if the entry is no longer available."""
        try:
            return next((entry.at_ms for entry, _ in self._entries(offset - 1, offset)), None)
        except errors.Trimmed:
            return None

    def oldest(self, since: int = 1) -> int:
        """``since``, or the first offset behind it whose event can still be read.

        Raises ArchiveAway: the archive is asked about events that the log lacks.
        """
        found = max(1, self._log.oldest())
        if self._archive is not None and found > max(1, since):
            found = min(self._archive.oldest() or found, found)
        return max(found, since)

    def reachable(self, since: int = 0, *, needed: bool = True) -> int:
        """``since``, or the first offset behind it whose snapshot can be made; 0 is before the first event.

        The archive is asked about what the log and the store's checkpoints do not cover. While it is away,
        raises ArchiveAway if the bound is ``needed``; else it is theirs, with a line in the log.
        """
        try:
            found = self._restorable(since)
        except errors.ArchiveAway as away:
            if needed:
                raise
            telemetry.log.warning("the archive cannot be read", error=str(away))
            found = self._restorable(since, archived=False)
        return max(since, self._log.oldest() - 1) if found is None else found

    def readable(self, since: int = 0) -> int:
        """``since``, or the first offset behind it whose snapshot and event can be read; 0 has no event.

        The snapshot before the oldest event may not be reconstructible. Raises ArchiveAway.
        """
        oldest = self.oldest(since)
        return max(self.reachable(since), oldest if oldest > 1 else 0)

    def of(
        self, position: model.Position, *, attended: fold_limit.Check = fold_limit.always_attended
    ) -> snapshots.Snapshot:
        """The snapshot at a position; raises as ``at``, and Superseded for another incarnation."""
        self.check(position.incarnation)
        return self.at(position.offset, attended=attended)

    def check(self, incarnation: str) -> None:
        """Raise Superseded unless the log is of this incarnation."""
        present = self._log.incarnation
        if incarnation != present:
            raise errors.Superseded(incarnation, present, self._log.oldest())

    def offset_at(self, time_ms: int) -> int:
        """The offset of the last event appended by that time (milliseconds); 0 before the first.

        If the store's clock was set back, the offset of one such event.
        """
        low, head = max(0, self._log.oldest() - 1), self._log.head()
        high, oldest = head.offset, low + 1
        while low < high:
            middle = (low + high + 1) // 2
            try:
                (at_ms,) = self._log.read_past(middle - 1, limit=1, incarnation=head.incarnation).times
            except errors.Trimmed as trimmed:
                low, oldest = trimmed.oldest - 1, trimmed.oldest
                continue
            if at_ms <= time_ms:
                low = middle
            else:
                high = middle - 1
        if low >= oldest or oldest == 1:
            return low
        # All entries in the log are later, and older ones were trimmed.
        archived = self._archive.offset_at(time_ms) if self._archive is not None else None
        if archived is not None:
            return archived
        if self.oldest() == 1:
            return 0
        raise errors.Trimmed(self._oldest())

    def entries(self, since: int, until: int | None = None, *, limit: int = 100) -> list[readers.Entry]:
        """The first entries at offsets ``since`` to ``until``, both included, oldest first.

        At most ``limit``, and fewer if their events have MOST_BYTES; at least one if there is any.
        """
        return self.part(since, until, limit=limit, read=limit).entries

    def part(
        self,
        since: int,
        until: int | None = None,
        *,
        kind: str | None = None,
        subject: str | None = None,
        wanted: Callable[[readers.Entry], bool] | None = None,
        limit: int = 100,
        most_bytes: int = MOST_BYTES,
        read: int = _READ,
    ) -> Part:
        """As ``entries``, of those that match, with the offset at which the rest of the range begins.

        ``kind`` is the tag of the event (``PodSeen``), ``subject`` its subject (``pod:UID``);
        ``wanted`` filters the remaining ones. Without ``until``, the rest begins behind the last one read.
        ``read``: entries read at a time at most.
        """
        found: list[readers.Entry] = []
        narrowed = kind is not None or subject is not None or wanted is not None
        after, behind, held = max(0, since - 1), since if until is None else max(since, until + 1), 0
        end = until if narrowed else after + limit if until is None else min(until, after + limit)
        for entry, size in self._entries(after, end, read):
            behind = max(behind, entry.offset + 1)
            if kind is not None and type(entry.event).__name__ != kind:
                continue
            if subject is not None and subject not in event_subjects.touched(entry.event):
                continue
            if wanted is not None and not wanted(entry):
                continue
            found.append(entry)
            held += size
            if len(found) == limit or held >= most_bytes:
                return Part(found, entry.offset + 1)
        return Part(found, behind)

    def raws(self, first: int, last: int) -> Iterator[list[readers.Raw]]:
        """The undecoded entries at offsets ``first`` to ``last``, both included, in runs.

        Raises Trimmed, Gap, Damaged or StoreAway.
        """
        while first <= last:
            until = min(last, first + readers.CHUNK - 1)
            try:
                with self._pace.piece():
                    found = self._log.raws(first - 1, until)
            except errors.Gap:
                if self._log.oldest() <= first:
                    raise
                found = self._archived_raws(first, last)
            yield found
            first = found[-1].offset + 1

    def _archived_raws(self, first: int, last: int) -> list[readers.Raw]:
        if self._archive is None:
            raise errors.Trimmed(self._oldest())
        try:
            return self._archive.read_raw(first, max(first, min(last, self._trimmed())))
        except errors.Trimmed as trimmed:
            raise errors.Trimmed(self._oldest()) from trimmed

    def _entries(
        self, after: int, until: int | None, most: int = _READ
    ) -> Iterator[tuple[readers.Entry, int]]:
        """The entries behind an offset, of one incarnation, and the bytes of each one's event.

        At most ``most`` are read at a time; after the first read no more than have MOST_BYTES, if they are as
        large as the ones before.
        """
        incarnation, most = self._log.incarnation, min(most, readers.CHUNK)
        piece = min(most, _FIRST)
        while until is None or after < until:
            if until is not None:
                piece = min(piece, until - after)
            found: Iterable[tuple[readers.Entry, int]]
            try:
                with self._pace.piece():
                    read = self._log.read_past(after, limit=piece, incarnation=incarnation)
                found = read.one_by_one()
            except errors.Trimmed:
                archived = self._archived(after, piece)
                found = [(entry, len(codecs.encode(entry.event))) for entry in archived]
            began, size = after, 0
            for entry, taken in found:
                if until is not None and entry.offset > until:
                    return
                yield entry, taken
                after, size = entry.offset, size + taken
            if after == began:
                return
            piece = max(1, min(most, (after - began) * MOST_BYTES // max(1, size)))

    def _archived(self, after: int, limit: int) -> list[readers.Entry]:
        if self._archive is None:
            raise errors.Trimmed(self._oldest())
        try:
            return self._archive.read(after, limit=max(1, min(limit, self._trimmed() - after)))
        except errors.Trimmed as trimmed:
            raise errors.Trimmed(self._oldest()) from trimmed

    def _trimmed(self) -> int:
        """The last offset that only the archive has.

        What the log still has is not read from the archive: until an incarnation has archived something, the
        segments of the one before it reach into what was lost.
        """
        return self._log.oldest() - 1

    def _oldest(self) -> int:
        """The oldest offset available, for the error about an older one."""
        found = self._restorable()
        return self.oldest() if found is None else found

    def _restorable(self, since: int = 0, *, archived: bool = True) -> int | None:
        return self._begin.oldest(since, archived=archived) if self._begin is not None else None

    # -- snapshots -------------------------------------------------------------------------

    def _near(self, offset: int) -> _Kept | None:
        """The nearest available snapshot that is not after the offset."""
        recent = self._follower.nearest(offset)
        near = None if recent is None else _Kept(recent, -1)
        present = self._follower.snapshot.position.incarnation
        with self._lock:
            for past, kept in list(self._cache.items()):
                if kept.snapshot.position.incarnation != present:
                    del self._cache[past]
                elif past <= offset and (near is None or past > near.snapshot.offset):
                    near = kept
            if near is not None and near.snapshot.offset in self._cache:
                self._cache.move_to_end(near.snapshot.offset)
        return near

    def _made(self, offset: int, check: fold_limit.Check) -> snapshots.Snapshot:
        """The snapshot at the offset; the previous fold may have produced a near one."""
        near = self._near(offset)
        if near is None or near.snapshot.offset != offset:
            with gc_pause.paused():
                near = self._reached(near, offset, check)
            self._remember(near)
        return near.snapshot

    def _reached(self, near: _Kept | None, offset: int, check: fold_limit.Check) -> _Kept:
        """The snapshot at the offset, folded from an available one or from a checkpoint."""
        better = self._checkpoint(offset, None if near is None else near.snapshot.offset)
        if better is None and near is not None:
            try:
                return self._folded(near, offset, check)
            except errors.Trimmed:
                better = self._checkpoint(offset, None)
                if better is None or better.snapshot.offset <= near.snapshot.offset:
                    raise
        if better is None:
            now = self._follower.snapshot
            better = _Kept(
                snapshots.empty(schema=now.schema, indexed=now.indexed, incarnation=now.position.incarnation),
                0,
            )
        return self._folded(better, offset, check)

    def _checkpoint(self, offset: int, better_than: int | None) -> _Kept | None:
        if self._begin is None:
            return None
        indexed = self._follower.snapshot.indexed
        found = self._begin.not_after(offset, indexed=indexed, better_than=better_than)
        return None if found is None else _Kept(found.snapshot, found.snapshot.offset)

    def _folded(self, base: _Kept, offset: int, check: fold_limit.Check) -> _Kept:
        if base.snapshot.offset == offset:
            return base
        projection = projections.Projection(base.snapshot)
        with codecs.folding():
            for entries in self._runs(base.snapshot.position, offset):
                check()
                projection.apply_all(entries)
        if projection.offset < offset:
            raise errors.Beyond(offset, projection.offset)
        return _Kept(projection.finish(), base.origin)

    def _runs(self, base: model.Position, until: int) -> Iterator[list[events.AnyEvent]]:
        """The events behind ``base`` up to ``until`` for a fold, from the log or the archive. Raises Rewound
        if the log is of another incarnation by then.
        """
        after, incarnation = base.offset, base.incarnation or self._log.incarnation
        while after < until:
            limit = min(readers.CHUNK, until - after)
            try:
                with self._pace.piece():
                    read = self._log.read_past(after, limit=limit, incarnation=incarnation)
                found = read.run
            except errors.Trimmed:
                found = [entry.event for entry in self._archived(after, min(_PIECE, until - after))]
            if not found:
                return
            yield found
            after += len(found)

    def _remember(self, kept: _Kept) -> None:
        with self._lock:
            self._cache[kept.snapshot.offset] = kept
            self._cache.move_to_end(kept.snapshot.offset)
            while len(self._cache) > self._kept:
                self._cache.popitem(last=False)
            origins = list(dict.fromkeys(one.origin for one in reversed(self._cache.values())))
            for origin in origins[_ORIGINS:]:
                for offset in [at for at, one in self._cache.items() if one.origin == origin]:
                    del self._cache[offset]
