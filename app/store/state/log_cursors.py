"""Reads a log entry by entry or in runs, verifies it, and applies it to a snapshot."""

import contextlib
import gc
import threading
from collections.abc import Generator, Iterator
from typing import NamedTuple

from app.domain import model, projections, snapshots
from app.domain import schema as schemas
from app.store import errors
from app.store.checkpoints import recovery_points
from app.store.log import batches, codecs, incarnations, logs, loss_detection, readers
from app.store.state import gc_pause, recent_snapshots, subscribers

_LARGEST = "pods"
"""The kind whose list is as large as all others together."""


class Start(NamedTuple):
    """Where a read begins."""

    snapshot: snapshots.Snapshot
    appended_ms: int | None
    """When the last event of the snapshot was appended, if known."""
    seen: incarnations.Watermark
    """The latest entry known to have been in the log by then."""


class Update(NamedTuple):
    """Entries that arrived while a thread waited for them."""

    began: float
    """When the wait began (monotonic seconds)."""
    start: Start
    read: readers.Read


class LogCursor:
    """The state at one position of a log, moved forward by reads. Not thread-safe: its user holds a lock.

    ``snapshot``, ``nearest`` and ``nodes_at`` may be read by any thread without it.
    """

    def __init__(
        self,
        log: logs.Log,
        subscribed: subscribers.Subscribers,
        *,
        schema: schemas.Schema,
        indexed: frozenset[str],
        recovery: recovery_points.RecoveryPoints | None,
    ) -> None:
        """``subscribed`` gets each event if there are subscribers; ``schema``, ``indexed``: see
        ``followers.Follower``.

        With ``recovery`` the first snapshot is read from a checkpoint.
        """
        self._log = log
        self._subscribers = subscribed
        self._recovery = recovery
        self._reader = log.reader()
        self.snapshot = snapshots.empty(schema=schema, indexed=indexed, incarnation=log.incarnation)
        """The latest snapshot; may be behind the log."""
        self.appended_ms: int | None = None
        """When the last event of the snapshot was appended (milliseconds), if known."""
        self.head_seen = 0
        """The last offset of the log when it was last read."""
        self.jumps = 0
        """How often entries were trimmed before the subscribers were notified of them."""
        self.reached = threading.Event()
        """Set once the snapshot was at the head of this incarnation."""
        self._exempted = False
        """The objects of a cluster that was listed are excluded from collections."""
        self._replaying = False
        """The subscribers were notified of these events before, in another incarnation."""
        self._recent = recent_snapshots.RecentSnapshots(self.snapshot)
        self._times = loss_detection.TimestampHistory()
        self._seen = log.seen
        """Known to be in the log when the last read began: this process may have written without reading."""

    @property
    def start(self) -> Start:
        """Where the next read begins."""
        return Start(self.snapshot, self.appended_ms, self._log.seen)

    def nearest(self, offset: int) -> snapshots.Snapshot | None:
        """The latest of the recent snapshots that is not after the offset."""
        return self._recent.nearest(offset, self.snapshot)

    def nodes_at(self, position: model.Position) -> recent_snapshots.Nodes | None:
        """The nodes of the snapshot that was served at that position; None if it is too long ago."""
        here, offset = self.snapshot.position, position.offset
        if offset > here.offset or position.incarnation != here.incarnation:
            return None
        return self._recent.nodes_at(offset)

    def first_divergence(self) -> int | None:
        """The last offset at which the log still holds what was read; None if nothing was read."""
        return self._times.first_divergence(self._log.time_of)

    def close(self) -> None:
        """Close the connection; the next read opens another."""
        self._reader.close()

    # -- reading ---------------------------------------------------------------------------

    def request(self) -> bool:
        """Send the first request of ``read_to_head`` without waiting; false if it could not be sent."""
        self._seen = self._log.seen
        return self._reader.ask(self.snapshot.offset, self.appended_ms)

    def read_to_head(self, *, timeout: float, requested: bool) -> bool:
        """Read to the head and apply; what was applied before a failure is kept.

        ``timeout`` (seconds) bounds each read; ``requested``: ``request`` has sent the first one. False if
        it stopped before the head because the subscribers are behind. Raises StoreAway, Rewound, Gap, Trimmed
        or Unreadable.
        """
        if not requested:
            self._seen = self._log.seen
        with codecs.folding(), gc_pause.paused():
            if not self.reached.is_set():
                self._start_over()
            if not self._read(timeout, requested=requested):
                return False
            self._exempt()
        self._replaying = False
        self.reached.set()
        return True

    def apply_update(self, update: Update) -> bool:
        """Apply entries that arrived, unless the snapshot has moved meanwhile.

        True if the snapshot then has everything up to the head of the update.
        """
        here, start = self.snapshot, update.start.snapshot
        if self._replaying or here.position.incarnation != start.position.incarnation:
            return False
        if here.offset != start.offset:
            # Usually by an append of this process, which was applied without being read.
            return here.offset >= update.read.head
        if update.read.last < update.read.head:
            return False
        with codecs.folding(), gc_pause.paused():
            return self._apply(iter((update.read,)), update.start.seen, notify=bool(self._subscribers))

    def apply_own_append(self, ahead: snapshots.Snapshot, appended: batches.Appended | None) -> None:
        """Move to the projection of an own append, if nothing else has to see its events."""
        here = self.snapshot
        # Subscribers must get the event itself: then it is read like any other.
        if self._subscribers or ahead.offset <= here.offset:
            return
        if ahead.position.incarnation == here.position.incarnation:
            if appended is not None:
                self._times.add(here.offset, [appended.at_ms] * (ahead.offset - here.offset))
            self._publish(ahead, appended.at_ms if appended is not None else None)
            self.head_seen = max(self.head_seen, ahead.offset)

    def switch_incarnation(self) -> bool:
        """After Rewound: start again in the store's incarnation if it is a later one.

        Otherwise reports the loss to the store, and returns false. Raises StoreAway or Unbegun.
        """
        found = self._log.state().incarnation
        here = self.snapshot.position
        if not incarnations.later(found, here.incarnation):
            self._report_loss(incarnations.Watermark(here.incarnation, here.offset, self.appended_ms))
            return False
        self._log.follow(found)
        self._reader.incarnation = found
        former = self.snapshot
        self.reached.clear()  # First: the empty snapshot would count as caught up.
        self._move(snapshots.empty(schema=former.schema, indexed=former.indexed, incarnation=found), None)
        self._times = loss_detection.TimestampHistory()
        self._subscribers.forget()
        self.head_seen = 0
        self._replaying = True
        return True

    def _report_loss(self, read: incarnations.Watermark) -> None:
        """Report what the log no longer holds: the latest entry that is known here, or the last one read.

        The latest may have been noted after the loss. It is held then, and the one read before is not.
        """
        kept = self.first_divergence()
        for one in sorted(dict.fromkeys((self._log.seen, read)), key=lambda one: one.offset, reverse=True):
            if not self._log.report_loss(one._replace(kept=kept)):
                return
        # The store holds both: what was read is a server that is not, or no longer, the store's.
        self._reader.close()

    def _exempt(self) -> None:
        """Exclude what was read so far from collections: at the first head, and once the cluster is listed.

        Nearly all of it stays. Not more often: garbage of other threads would be excluded with it.
        """
        listed = _LARGEST in self.snapshot.listed
        if not self.reached.is_set() or (listed and not self._exempted):
            gc.freeze()
            self._exempted = listed

    def _read(self, timeout: float, *, requested: bool) -> bool:
        notify = bool(self._subscribers) and not self._replaying
        try:
            with self._reads(timeout, requested=requested) as reads:
                return self._apply(reads, self._seen, notify=notify)
        except errors.Trimmed:
            # This process was too slow, or was stopped for too long.
            if not self._start_over():
                raise
            self.jumps += notify
            with self._reads(timeout) as reads:
                return self._apply_runs(reads)

    def _reads(
        self, timeout: float, *, requested: bool = False
    ) -> contextlib.closing[Generator[readers.Read, None, None]]:
        # Closed before another thread may read: the traceback of a failure keeps the generator, and the next
        # read would receive the reply to the request that it has sent.
        here, at_ms = self.snapshot.offset, self.appended_ms
        return contextlib.closing(self._reader.read_all(here, at_ms, timeout=timeout, asked=requested))

    def _start_over(self) -> bool:
        """Continue from the newest checkpoint; false if it is not ahead of the snapshot."""
        if self._recovery is None:
            return False
        snapshot, at_ms = self._recovery.newest(indexed=self.snapshot.indexed)
        if snapshot.offset <= self.snapshot.offset:
            return False
        self._move(snapshot, at_ms)
        return True

    def _move(self, snapshot: snapshots.Snapshot, appended_ms: int | None) -> None:
        self.snapshot, self.appended_ms = snapshot, appended_ms
        self._recent = recent_snapshots.RecentSnapshots(snapshot)

    # -- applying --------------------------------------------------------------------------

    def _apply(self, reads: Iterator[readers.Read], seen: incarnations.Watermark, *, notify: bool) -> bool:
        verified = loss_detection.proven(reads, seen)
        return self._apply_singly(verified) if notify else self._apply_runs(verified)

    def _apply_runs(self, reads: Iterator[readers.Read]) -> bool:
        projection: projections.Projection | None = None
        appended_ms = self.appended_ms
        try:
            for read in reads:
                self.head_seen = read.head
                if not read.payloads:
                    self.appended_ms = appended_ms = read.head_ms if read.head else None
                    continue
                if projection is None:
                    projection = projections.Projection(self.snapshot)
                projection.apply_all(read.run)
                self._times.add(read.after, read.times)
                appended_ms = read.times[-1]
        except errors.StoreError:
            if projection is not None:
                self._publish(projection.finish(), appended_ms)
            raise
        if projection is not None:
            self._publish(projection.finish(), appended_ms)
        return True

    def _apply_singly(self, reads: Iterator[readers.Read]) -> bool:
        for read in reads:
            if self._subscribers.full:
                return False
            self.head_seen = read.head
            self._times.add(read.after, read.times)
            for entry in read.entries:
                before = self.snapshot
                after = projections.project(before, entry.event)
                self._publish(after, entry.at_ms)
                self._subscribers.put(before, after, entry)
        return True

    def _publish(self, snapshot: snapshots.Snapshot, appended_ms: int | None) -> None:
        self._recent.add(snapshot)
        self.snapshot = snapshot
        self.appended_ms = appended_ms
        self._log.note(incarnations.Watermark(snapshot.position.incarnation, snapshot.offset, appended_ms))
