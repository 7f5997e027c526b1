"""Keeping a snapshot at the head of the log.

A thread tails the log, so that there is usually nothing left to do; a verb that must not miss
anything calls ``catch_up``, which asks the store once and applies what is new. Threads that ask at
the same time share an answer, provided that it was asked for after they came.
"""

import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import immutables

from app.domain import model, projecting, snapshots
from app.store import errors, logs, retrying, tailing

Nodes = immutables.Map[model.NodeName, model.Node]
Callback = Callable[[snapshots.Snapshot, snapshots.Snapshot, tailing.Entry], None]

_WAIT_MS = 250
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_NODES = 256
_RING = 32
_RING_STEP = 256
"""A kept snapshot holds on to what the events since changed: about 1 KiB an event."""


class _Mine(threading.local):
    """What a thread knows of its own call."""

    came: int | None = None
    """How many reads were begun when the call came."""


class Follower:
    """The latest snapshot of one log, and those who want to hear of each event."""

    def __init__(self, log: logs.Log, *, indexed: frozenset[str] = frozenset()) -> None:
        """``indexed``: label keys of pods that Snapshot.siblings must work for."""
        self._log = log
        self._tail = log.tail()
        self._watch = log.tail()
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
        self._callbacks: tuple[Callback, ...] = ()
        self._told: deque[tuple[snapshots.Snapshot, snapshots.Snapshot, tailing.Entry]] = deque()
        self._recent: deque[snapshots.Snapshot] = deque((self._snapshot,), maxlen=_RING)
        self._nodes: deque[tuple[int, Nodes]] = deque(((0, self._snapshot.nodes),), maxlen=_NODES)
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._reached = threading.Event()
        self._current_at = time.monotonic()
        self.head_seen = 0
        """The last offset of the log as it was last heard of."""
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

    def start(self) -> None:
        """Begin to follow in a thread of its own."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; the snapshot stays."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
            self._thread = None
        self._watch.close()
        with self._lock:
            self._asked_at = None
            self._tail.close()

    def wait_until_caught_up(self, *, timeout: float) -> bool:
        """Whether the head of the log was reached within the timeout (seconds)."""
        return self._reached.wait(timeout)

    def subscribe(self, callback: Callback) -> None:
        """Call ``callback(before, after, entry)`` in the follower's thread for each event from now on.

        A callback that raises stops nothing; its error is shown in ``error``.
        """
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        """The snapshot at the head of the log, as it was at some moment after this call began.

        Raises StoreAway if that cannot be had within the timeout (seconds); Rewound, Gap, Trimmed or
        Unreadable if it cannot be had at all.
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
            while True:
                try:
                    self._pull(timeout=patience.attempt)
                    if self._asked > came:
                        return self._snapshot
                except errors.StoreAway:
                    if not patience.again():
                        raise
        finally:
            self._lock.release()

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Ask the store at once what the first catch_up within will want to know, and wait for it only there.

        The answer comes while the caller still finds out what it is about. Never waits, never raises.
        """
        self._mine.came = self._asked
        self._ask()
        try:
            yield
        finally:
            self._mine.came = None

    def adopt(self, ahead: snapshots.Snapshot, appended: logs.Appended | None = None) -> None:
        """Take the projection of an append of our own, so that it need not be read back.

        Only for an append that directly followed the snapshot it was projected from. ``appended``
        lets the next read prove that the log still follows on it.
        """
        with self._lock:
            here = self._snapshot
            # Whoever listens must hear of the event itself: then it is read like any other.
            if self._callbacks or ahead.offset <= here.offset:
                return
            # A question about what follows on this snapshot is on its way: its answer brings the event.
            if self._asked_at is not None:
                return
            if ahead.position.incarnation == here.position.incarnation:
                self._publish(ahead, appended.at_ms if appended is not None else None)
                self.head_seen = max(self.head_seen, ahead.offset)

    def nearest(self, offset: int) -> snapshots.Snapshot | None:
        """The latest of the recent snapshots that is not after the offset."""
        found = [kept for kept in (*self._recent, self._snapshot) if kept.offset <= offset]
        return max(found, key=lambda kept: kept.offset, default=None)

    def nodes_at(self, offset: int) -> Nodes | None:
        """The nodes of the snapshot that was served here at that offset; None if it is long ago."""
        if offset > self._snapshot.offset:
            return None
        return next((nodes for since, nodes in reversed(tuple(self._nodes)) if since <= offset), None)

    # -- under the lock --------------------------------------------------------------------

    def _ask(self) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._asked_at is not None:
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

    def _pull(self, *, timeout: float) -> None:
        """Read to the head and apply; what was applied before a failure stays.

        A question that is on its way is the one that is answered, whoever sent it.
        """
        begun, self._asked_at = self._asked_at, None
        asked = begun is not None
        if begun is None:
            self._begin()
            begun = time.monotonic()
        reads = self._tail.read_all(self._snapshot.offset, self._known_ms, timeout=timeout, asked=asked)
        with _collector_paused():
            if self._callbacks:
                self._apply_singly(reads)
            else:
                self._apply(reads)
        self._current_at = begun
        self._fresh = True
        self._reached.set()

    def _apply(self, reads: Iterator[tailing.Read]) -> None:
        projection: projecting.Projection | None = None
        known = self._known_ms
        try:
            for read in reads:
                self.head_seen = read.head
                if not read.events:
                    self._known_ms = known = read.head_ms if read.head else None
                    continue
                if projection is None:
                    projection = projecting.Projection(self._snapshot)
                projection.apply_all(read.events)
                known = read.times[-1]
        except errors.StoreError:
            if projection is not None:
                self._publish(projection.finish(), known)
            raise
        if projection is not None:
            self._publish(projection.finish(), known)

    def _apply_singly(self, reads: Iterator[tailing.Read]) -> None:
        for read in reads:
            self.head_seen = read.head
            for entry in read.entries:
                before = self._snapshot
                after = projecting.project(before, entry.event)
                self._publish(after, entry.at_ms)
                self._told.append((before, after, entry))

    def _publish(self, snapshot: snapshots.Snapshot, known_ms: int | None) -> None:
        if snapshot.nodes is not self._snapshot.nodes:
            self._nodes.append((snapshot.offset, snapshot.nodes))
        self._snapshot = snapshot
        self._known_ms = known_ms
        if snapshot.offset - self._recent[-1].offset >= _RING_STEP:
            self._recent.append(snapshot)

    # -- the thread ------------------------------------------------------------------------

    def _follow(self) -> None:
        pause = _PAUSE_SECONDS
        while not self._stopping.is_set():
            try:
                with self._lock:
                    self._pull(timeout=1.0)
                    seen = self._snapshot.offset
                self._tell()
                self.error = None
                pause = _PAUSE_SECONDS
                self._watch.wait(seen, milliseconds=_WAIT_MS)
            except Exception as error:
                # Nothing may end this thread: whoever catches up gets the error, readiness shows it.
                self.error = error
                self._stopping.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _tell(self) -> None:
        failures: list[Exception] = []
        while self._told:
            told = self._told.popleft()
            for callback in self._callbacks:
                try:
                    callback(*told)
                except Exception as error:
                    failures.append(error)
        if failures:
            raise failures[0]


@contextmanager
def _collector_paused() -> Iterator[None]:
    """What a fold makes stays: looking for cycles in it, again and again, would take three times as long."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
