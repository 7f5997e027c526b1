"""Lets many threads read a log to its head through one cursor, sharing reads.

A thread may use a read of another thread only if that read began after its own call did: otherwise it could
miss an event that was appended in between.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.domain import snapshots
from app.store import errors
from app.store.log import batches
from app.store.server import retries
from app.store.state import log_cursors, subscribers


class _Call(threading.local):
    """The call that this thread is about to make."""

    ticket: int | None = None


class CatchUp:
    """Catches up with the head of the log; thread-safe."""

    def __init__(
        self,
        cursor: log_cursors.LogCursor,
        subscribed: subscribers.Subscribers,
        *,
        on_caught_up: Callable[[int], None],
    ) -> None:
        """``on_caught_up`` is called with the offset after each read to the head, under the lock."""
        self._cursor = cursor
        self._subscribers = subscribed
        self._on_caught_up = on_caught_up
        self._lock = threading.Lock()
        self._begun = 0
        """How many reads have begun; only changed under the lock."""
        self._fresh = False
        """The last read that began has reached the head."""
        self._requested_at: float | None = None
        """When the request was sent whose reply was not read yet."""
        self._call = _Call()
        self._current_at = time.monotonic()

    @property
    def lag_seconds(self) -> float:
        """How long ago the snapshot was last known to be the head of the log."""
        return time.monotonic() - self._current_at

    def catch_up(self, *, timeout: float) -> snapshots.Snapshot:
        """The snapshot at the head, at some moment after the call began; see ``Follower.catch_up``."""
        ticket = self._begun if self._call.ticket is None else self._call.ticket
        self._call.ticket = None
        deadline = retries.RetryDeadline(timeout)
        cursor = self._cursor
        if not self._lock.acquire(timeout=timeout):
            raise errors.Behind(
                f"still reading the log: offset {cursor.snapshot.offset} of {cursor.head_seen}"
            )
        try:
            if self._begun > ticket and self._fresh:
                return cursor.snapshot
            if deadline.over:
                raise errors.Behind("the log was being read for another caller all the time")
            while True:
                try:
                    complete = self._read(timeout=deadline.attempt)
                    if complete and self._begun > ticket:
                        return cursor.snapshot
                    if not complete and not deadline.again():
                        raise errors.Behind(f"the subscribers are {len(self._subscribers)} events behind")
                except errors.StoreAway:
                    if not deadline.again():
                        raise
                except errors.Rewound:
                    if not cursor.switch_incarnation():
                        raise
        finally:
            self._lock.release()

    def request(self) -> int:
        """Send the request of the first catch_up within ``prefetch``; never waits, never raises.

        Returns the ticket for ``prefetch``.
        """
        ticket = self._begun
        if self._lock.acquire(blocking=False):
            try:
                # Before the head was reached, a read may begin at a checkpoint instead.
                if self._cursor.reached.is_set() and self._requested_at is None:
                    # Counted before it is sent: a caller that arrives in between must not treat this reply
                    # as its own.
                    self._count()
                    if self._cursor.request():
                        self._requested_at = time.monotonic()
            except errors.StoreError:
                # catch_up sends it again, and raises.
                pass
            finally:
                self._lock.release()
        return ticket

    @contextmanager
    def prefetch(self, ticket: int | None = None) -> Iterator[None]:
        """Send the request now; the first catch_up in the block awaits the reply.

        ``ticket`` is the result of an earlier ``request``, which then was sent already.
        """
        self._call.ticket = self.request() if ticket is None else ticket
        try:
            yield
        finally:
            self._call.ticket = None

    def advance(self, update: log_cursors.Update | None) -> tuple[log_cursors.Start, bool]:
        """Apply the update, or read to the head if it is None or does not fit; for the follower's thread.

        Returns where the next wait begins, and whether other threads had applied the update before.
        Raises as ``Follower.catch_up``.
        """
        with self._lock:
            here = self._cursor.snapshot.offset
            applied = update is not None and update.start.snapshot.offset < update.read.head <= here
            if update is None or not self._apply(update):
                self._read_on()
            return self._cursor.start, applied

    def apply_own_append(self, ahead: snapshots.Snapshot, appended: batches.Appended | None) -> None:
        """See ``Follower.apply_own_append``."""
        # Another thread that reads may wait for the store longer than a bind may take.
        if self._lock.acquire(blocking=False):
            try:
                # The reply to a request that was sent would not follow on the new snapshot.
                if self._requested_at is None:
                    self._cursor.apply_own_append(ahead, appended)
            finally:
                self._lock.release()

    def subscribe(self, callback: subscribers.Callback, ended: subscribers.Ended | None = None) -> None:
        """Add a subscriber between two reads."""
        with self._lock:
            self._subscribers.add(callback, ended)

    def first_divergence(self) -> int | None:
        """See ``LogCursor.first_divergence``."""
        with self._lock:
            return self._cursor.first_divergence()

    def dated(self) -> tuple[snapshots.Snapshot, int | None]:
        """The latest snapshot, and when its last event was appended (milliseconds), if known."""
        with self._lock:
            return self._cursor.snapshot, self._cursor.appended_ms

    @contextmanager
    def held(self) -> Iterator[None]:
        """No thread reads during the block."""
        with self._lock:
            yield

    def close(self) -> None:
        """Close the connection, and drop a request that was sent."""
        with self._lock:
            self._requested_at = None
            self._cursor.close()

    # -- under the lock --------------------------------------------------------------------

    def _count(self) -> None:
        self._begun += 1
        self._fresh = False

    def _read(self, *, timeout: float) -> bool:
        """Read to the head, with the request that was sent before, by any thread, if there is one."""
        began, self._requested_at = self._requested_at, None
        requested = began is not None
        if began is None:
            self._count()
            began = time.monotonic()
        if not self._cursor.read_to_head(timeout=timeout, requested=requested):
            return False
        self._current_at = began
        self._fresh = True
        self._on_caught_up(self._cursor.snapshot.offset)
        return True

    def _read_on(self) -> None:
        try:
            self._read(timeout=1.0)
        except errors.Rewound:
            if not self._cursor.switch_incarnation():
                raise
            self._read(timeout=1.0)

    def _apply(self, update: log_cursors.Update) -> bool:
        # It answers no catch_up that is waiting: the wait began before their calls did.
        if self._requested_at is not None or not self._cursor.apply_update(update):
            return False
        self._current_at = max(self._current_at, update.began)
        return True
