"""A snapshot at the head of the log, for threads that must not miss anything.

``catch_up`` asks the store once and applies what is new. Threads that ask at the same time share an
answer, provided that it was asked for after they came.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from app import telemetry
from app.domain import model, projecting, snapshots
from app.store import (
    beginnings,
    collecting,
    errors,
    incarnations,
    listening,
    logs,
    readers,
    recalling,
    retrying,
    tailing,
    witnessing,
)

_LARGEST = "pods"
"""The kind whose list is as large as all others together."""


class News(NamedTuple):
    """What the log told by itself."""

    begun: float
    """When it began to be waited for (monotonic seconds)."""
    here: snapshots.Snapshot
    """What it follows on."""
    known: incarnations.Known
    """What was in the log by then."""
    read: tailing.Read


class _Mine(threading.local):
    """What a thread knows of its own call."""

    came: int | None = None
    """How many reads were begun when the call came."""


class Head:
    """The latest snapshot of one log, and what is to be told of each event. No thread of its own.

    When the store has begun a later incarnation it starts again with an empty snapshot, and is not
    caught up until it has read that one; whoever listens hears of what comes after.
    """

    def __init__(
        self,
        log: logs.Log,
        *,
        indexed: frozenset[str] = frozenset(),
        begin: beginnings.Beginnings | None = None,
        reader: readers.Reader | None = None,
    ) -> None:
        """``indexed``: label keys of pods that Snapshot.siblings must work for.

        With ``begin`` the first snapshot comes out of a checkpoint. ``reader`` tells the store how far
        this one is, so that nothing is trimmed before it is read.
        """
        self._log = log
        self._beginnings = begin
        self._reader = reader
        self._tail = log.tail()
        self._snapshot = snapshots.empty(indexed=indexed, incarnation=log.incarnation)
        self._known_ms: int | None = None
        self._lock = threading.Lock()
        self._asked = 0
        """How many reads were begun; only changed under the lock."""
        self._fresh = False
        """The read that was begun last has ended well."""
        self._asked_at: float | None = None
        """When the question was sent whose answer nobody has read yet."""
        self._mine = _Mine()
        self.audience = listening.Audience()
        """Who listens, and how much waits to be told."""
        self._recalled = recalling.Recalled(self._snapshot)
        self._thread: telemetry.loops.Loop | None = None
        """The one that follows, if there is one (following.Follower): it tells the store how far this is."""
        self._reached = threading.Event()
        self._silent = False
        """What is read now was told before, in another incarnation."""
        self._seen = witnessing.Memory()
        self._known = log.seen
        """What was in the log when the last read was begun: this process may have written without reading."""
        self._current_at = time.monotonic()
        self.head_seen = 0
        """The last offset of the log as it was last heard of."""
        self.jumps = 0
        """How often those who listen were so slow that events were trimmed before they heard of them."""
        self.error: Exception | None = None
        """Why the thread cannot follow right now, or None."""

    @property
    def snapshot(self) -> snapshots.Snapshot:
        """The latest snapshot applied here; may be behind the log."""
        return self._snapshot

    @property
    def lag_seconds(self) -> float:
        """How long ago this snapshot was last known to be the head of the log."""
        return time.monotonic() - self._current_at

    @property
    def caught_up(self) -> bool:
        """The head of the log was reached at least once: before that, nothing may be decided."""
        return self._reached.is_set()

    def wait_until_caught_up(self, *, timeout: float) -> bool:
        """Whether the head of the log was reached within the timeout (seconds)."""
        return self._reached.wait(timeout)

    def subscribe(self, callback: listening.Callback) -> None:
        """Call ``callback(before, after, entry)`` in the follower's thread for each event from now on.

        A callback that raises stops nothing; its error is shown in ``error``.
        """
        with self._lock:
            self.audience.add(callback)

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        """The snapshot at the head of the log, as it was at some moment after this call began.

        Raises StoreAway if that cannot be had within the timeout (seconds); Rewound if events were
        lost and no later incarnation has begun; Gap, Trimmed or Unreadable if it cannot be had at all.
        """
        came = self._asked if self._mine.came is None else self._mine.came
        self._mine.came = None
        patience = retrying.Patience(timeout)
        if not self._lock.acquire(timeout=timeout):
            raise errors.StoreAway(
                f"still reading the log: offset {self._snapshot.offset} of {self.head_seen}"
            )
        try:
            if self._asked > came and self._fresh:
                return self._snapshot
            if patience.over:
                raise errors.StoreAway("the log was being read for another caller all the time")
            while True:
                try:
                    complete = self._pull(timeout=patience.attempt)
                    if complete and self._asked > came:
                        return self._snapshot
                    if not complete and not patience.again():
                        raise errors.StoreAway(
                            f"behind the log: {len(self.audience)} events are not told yet"
                        )
                except errors.StoreAway:
                    if not patience.again():
                        raise
                except errors.Rewound:
                    if not self._follow_on():
                        raise
        finally:
            self._lock.release()

    def ask(self) -> int:
        """Ask what the first catch_up within ``asked`` will want to know; never waits, never raises."""
        came = self._asked
        self._ask()
        return came

    @contextmanager
    def asked(self, came: int | None = None) -> Iterator[None]:
        """While a caller finds out what it is about that asked in advance: it waits only in catch_up.

        ``came`` is what ``ask`` returned; without it the store is asked now.
        """
        self._mine.came = self.ask() if came is None else came
        try:
            yield
        finally:
            self._mine.came = None

    def divergence(self) -> int | None:
        """The last offset at which the log still holds what was read here; None if nothing was read."""
        with self._lock:
            return self._seen.divergence(self._log.time_of)

    def adopt(self, ahead: snapshots.Snapshot, appended: logs.Appended | None = None) -> None:
        """Take the projection of an append of our own, so that it need not be read back.

        Only for an append that directly followed the snapshot it was projected from. ``appended``
        lets the next read prove that the log still follows on it.
        """
        with self._lock:
            here = self._snapshot
            # Whoever listens must hear of the event itself: then it is read like any other.
            if self.audience or ahead.offset <= here.offset:
                return
            # A question about what follows on this snapshot is on its way: its answer brings the event.
            if self._asked_at is not None:
                return
            if ahead.position.incarnation == here.position.incarnation:
                if appended is not None:
                    self._seen.add(here.offset, [appended.at_ms] * (ahead.offset - here.offset))
                self._publish(ahead, appended.at_ms if appended is not None else None)
                self.head_seen = max(self.head_seen, ahead.offset)

    def dated(self) -> tuple[snapshots.Snapshot, int | None]:
        """The latest snapshot, and when its last event was appended (milliseconds), if that is known."""
        with self._lock:
            return self._snapshot, self._known_ms

    def nearest(self, offset: int) -> snapshots.Snapshot | None:
        """The latest of the recent snapshots that is not after the offset."""
        return self._recalled.nearest(offset, self._snapshot)

    def nodes_at(self, position: model.Position) -> recalling.Nodes | None:
        """The nodes of the snapshot that was served here at that position; None if it is long ago."""
        here, offset = self._snapshot.position, position.offset
        if offset > here.offset or position.incarnation != here.incarnation:
            return None
        return self._recalled.nodes_at(offset)

    # -- under the lock --------------------------------------------------------------------

    def _ask(self) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            # Before that, where to begin is not known.
            if not self._reached.is_set() or self._asked_at is not None:
                return
            # Counted before it is sent: whoever comes in between must not take its answer for one of his.
            self._begin()
            if self._tail.ask(self._snapshot.offset, self._known_ms):
                self._asked_at = time.monotonic()
        except errors.StoreError:
            # Whoever catches up asks again and hears of it.
            pass
        finally:
            self._lock.release()

    def _begin(self) -> None:
        self._asked += 1
        self._fresh = False
        self._known = self._log.seen

    def _pull(self, *, timeout: float) -> bool:
        """Read to the head and apply; what was applied before a failure stays.

        False if it stopped before the head because those who listen are behind. A question that is on its
        way is the one that is answered, whoever sent it.
        """
        begun, self._asked_at = self._asked_at, None
        asked = begun is not None
        if begun is None:
            self._begin()
            begun = time.monotonic()
        with collecting.paused(lasting=self._beginning):
            if not self._reached.is_set():
                self._start_over()
            if not self._read(timeout, asked=asked):
                return False
        self._current_at = begun
        self._fresh = True
        self._silent = False
        self._reached.set()
        if self._thread is None and self._reader is not None:
            self._reader.attend(self._snapshot.offset)
        return True

    @property
    def _beginning(self) -> bool:
        """Nearly all that is read now stays: the first of a log, or of a cluster that is being listed."""
        return not self._reached.is_set() or _LARGEST not in self._snapshot.listed

    def _read(self, timeout: float, *, asked: bool = False) -> bool:
        told = bool(self.audience) and not self._silent
        apply = self._apply_singly if told else self._apply
        try:
            reads = self._tail.read_all(self._snapshot.offset, self._known_ms, timeout=timeout, asked=asked)
            return apply(witnessing.proven(reads, self._known))
        except errors.Trimmed:
            # Too slow, or stopped for too long.
            if not self._start_over():
                raise
            self.jumps += told
            return self._apply(self._tail.read_all(self._snapshot.offset, self._known_ms, timeout=timeout))

    def _start_over(self) -> bool:
        """Go on from the newest checkpoint; false if there is none further than this."""
        if self._beginnings is None:
            return False
        snapshot, at_ms = self._beginnings.newest(indexed=self._snapshot.indexed)
        if snapshot.offset <= self._snapshot.offset:
            return False
        self._snapshot, self._known_ms = snapshot, at_ms
        self._recalled = recalling.Recalled(snapshot)
        return True

    def _follow_on(self) -> bool:
        """Go along to the store's incarnation if it is a later one; else let everybody know of the loss."""
        found = self._log.standing().incarnation
        here = self._snapshot.position
        if not incarnations.later(found, here.incarnation):
            known = incarnations.Known(here.incarnation, here.offset, self._known_ms)
            kept = self._seen.divergence(self._log.time_of)
            self._log.doubt(max(known, self._log.seen, key=lambda one: one.offset)._replace(kept=kept))
            return False
        self._log.follow(found)
        self._tail.incarnation = found
        self._snapshot = snapshots.empty(indexed=self._snapshot.indexed, incarnation=found)
        self._known_ms = None
        self._seen = witnessing.Memory()
        self._recalled = recalling.Recalled(self._snapshot)
        self.audience.forget()
        self.head_seen = 0
        self._reached.clear()
        self._silent = True
        return True

    def _apply(self, reads: Iterator[tailing.Read]) -> bool:
        projection: projecting.Projection | None = None
        known = self._known_ms
        try:
            for read in reads:
                self.head_seen = read.head
                if not read.payloads:
                    self._known_ms = known = read.head_ms if read.head else None
                    continue
                if projection is None:
                    projection = projecting.Projection(self._snapshot)
                projection.apply_all(read.run)
                self._seen.add(read.after, read.times)
                known = read.times[-1]
        except errors.StoreError:
            if projection is not None:
                self._publish(projection.finish(), known)
            raise
        if projection is not None:
            self._publish(projection.finish(), known)
        return True

    def _apply_singly(self, reads: Iterator[tailing.Read]) -> bool:
        for read in reads:
            if self.audience.full:
                return False
            self.head_seen = read.head
            self._seen.add(read.after, read.times)
            for entry in read.entries:
                before = self._snapshot
                after = projecting.project(before, entry.event)
                self._publish(after, entry.at_ms)
                self.audience.put(before, after, entry)
        return True

    def _publish(self, snapshot: snapshots.Snapshot, known_ms: int | None) -> None:
        self._recalled.add(snapshot)
        self._snapshot = snapshot
        self._known_ms = known_ms
        self._log.note(incarnations.Known(snapshot.position.incarnation, snapshot.offset, known_ms))

    def _take(self, news: News) -> bool:
        """Apply what came, if nobody has read further meanwhile; false if the log has to be asked.

        For those who catch up at the same time it is no answer: it was asked for before they came.
        """
        here = self._snapshot
        if (
            self._silent
            or self._asked_at is not None
            or here.position.incarnation != news.here.position.incarnation
        ):
            return False
        if here.offset != news.here.offset:
            # An append of this process, mostly, which is known without being read.
            return here.offset >= news.read.head
        if news.read.last < news.read.head:
            return False
        apply = self._apply_singly if self.audience else self._apply
        with collecting.paused():
            if not apply(witnessing.proven(iter((news.read,)), news.known)):
                return False
        self._current_at = max(self._current_at, news.begun)
        return True

    def _pull_on(self) -> None:
        try:
            self._pull(timeout=1.0)
        except errors.Rewound:
            if not self._follow_on():
                raise
            self._pull(timeout=1.0)
