"""Keeps the snapshot of a log at its head in a thread, and notifies subscribers of each event.

A verb that catches up therefore has usually little left to read.
"""

import functools
import threading
import time
from contextlib import AbstractContextManager

from app import telemetry
from app.domain import model, snapshots
from app.domain import schema as schemas
from app.pauses import Pauses
from app.store import errors
from app.store.checkpoints import recovery_points
from app.store.log import batches, consumers, logs, readers
from app.store.state import catch_up, log_cursors, recent_snapshots, subscribers

_WAIT_MS = 250
_REST_SECONDS = 0.05
"""Pause of the thread while the callers of catch_up keep the snapshot at the head themselves."""
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


class Follower:
    """The latest snapshot of one log; thread-safe.

    When the store has begun a later incarnation it starts again with an empty snapshot, and is not caught
    up until it has read that incarnation; subscribers get only its later events.
    """

    _stopping: threading.Event
    _watch: readers.LogReader

    def __init__(
        self,
        log: logs.Log,
        *,
        schema: schemas.Schema,
        indexed: frozenset[str] = frozenset(),
        recovery: recovery_points.RecoveryPoints | None = None,
        consumer: consumers.Consumer | None = None,
    ) -> None:
        """``schema``: the kinds and counters by which the log is folded; ``indexed``: label keys of pods that
        Snapshot.siblings must work for.

        With ``recovery`` the first snapshot is read from a checkpoint. ``consumer`` reports the position
        to the store, so that nothing is trimmed before it is read.
        """
        self._log = log
        self._consumer = consumer
        self._subscribers = subscribers.Subscribers()
        self._cursor = log_cursors.LogCursor(
            log, self._subscribers, schema=schema, indexed=indexed, recovery=recovery
        )
        self._reads = catch_up.CatchUp(
            self._cursor, self._subscribers, on_caught_up=self._heartbeat_without_thread
        )
        self._thread: telemetry.loops.Loop | None = None
        self.error: Exception | None = None
        """Why the thread cannot follow right now, or None."""

    # -- the snapshot ----------------------------------------------------------------------

    @property
    def snapshot(self) -> snapshots.Snapshot:
        """The latest snapshot applied here; may be behind the log."""
        return self._cursor.snapshot

    @property
    def head_seen(self) -> int:
        """The last offset of the log when it was last read."""
        return self._cursor.head_seen

    @property
    def jumps(self) -> int:
        """How often entries were trimmed before the subscribers were notified of them."""
        return self._cursor.jumps

    @property
    def lag_seconds(self) -> float:
        """How long ago this snapshot was last known to be the head of the log."""
        return self._reads.lag_seconds

    @property
    def caught_up(self) -> bool:
        """The head of the log was reached at least once: before that, nothing may be decided."""
        return self._cursor.reached.is_set()

    def wait_until_caught_up(self, *, timeout: float) -> bool:
        """Whether the head of the log was reached within the timeout (seconds)."""
        return self._cursor.reached.wait(timeout)

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        """The snapshot at the head of the log, as it was at some moment after this call began.

        Raises StoreAway if it is not available within the timeout (seconds), Behind if that
        is because other threads read or because there is too much to read; Rewound if events were
        lost and no later incarnation has begun; Gap, Trimmed or Unreadable if it cannot be read at all.
        """
        return self._reads.catch_up(timeout=timeout)

    def request(self) -> int:
        """Send the request of a later catch_up without waiting; returns the ticket for ``prefetch``."""
        return self._reads.request()

    def prefetch(self, ticket: int | None = None) -> AbstractContextManager[None]:
        """Send the request of a catch_up now; the first catch_up in the block awaits the reply.

        ``ticket`` is the result of an earlier ``request``, which then was sent already.
        """
        return self._reads.prefetch(ticket)

    def apply_own_append(self, ahead: snapshots.Snapshot, appended: batches.Appended | None = None) -> None:
        """Use the projection of an append of this process, so that it need not be read back.

        Only for an append that directly followed the snapshot it was projected from. ``appended``
        lets the next read verify that the log still holds it. Never waits: while another thread reads, the
        append is left for the next read.
        """
        self._reads.apply_own_append(ahead, appended)

    def first_divergence(self) -> int | None:
        """The last offset at which the log still holds what was read here; None if nothing was read."""
        return self._reads.first_divergence()

    def dated(self) -> tuple[snapshots.Snapshot, int | None]:
        """The latest snapshot, and when its last event was appended (milliseconds), if known."""
        return self._reads.dated()

    def nearest(self, offset: int) -> snapshots.Snapshot | None:
        """The latest of the recent snapshots that is not after the offset."""
        return self._cursor.nearest(offset)

    def nodes_at(self, position: model.Position) -> recent_snapshots.Nodes | None:
        """The nodes of the snapshot that was served here at that position; None if it is too long ago."""
        return self._cursor.nodes_at(position)

    # -- the thread ------------------------------------------------------------------------

    def subscribe(self, callback: subscribers.Callback, ended: subscribers.Ended | None = None) -> None:
        """Call ``callback(before, after, entry)`` in the follower's thread for each event from now on.

        ``ended`` is called after each run of events that were read by then.
        An exception of a callback stops nothing; it is shown in ``error``.
        """
        self._reads.subscribe(callback, ended)

    def start(self, *, gather: float = 0.0) -> None:
        """Start the thread.

        ``gather``: minimum seconds between two reads, so that one read covers several events. A read
        costs this process and the store about the same for one event as for twenty. Callers of
        catch_up do not wait for it.
        """
        if self._thread is None:
            self._stopping, self._watch = threading.Event(), self._log.reader()
            self._thread = telemetry.loops.Loop(
                "follower",
                functools.partial(self._follow, gather),
                wait=self._stopping.wait,
                longest=_LONGEST_PAUSE_SECONDS,
            ).start()

    def stop(self) -> None:
        """Stop the thread; the snapshot stays."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join(timeout=5.0)
            self._thread = None
            self._watch.close()
        self._reads.close()
        if self._consumer is not None:
            self._consumer.deregister()

    def heartbeat(self) -> None:
        """Report the position now, so that it prevents no trimming below it; raises StoreAway."""
        with self._reads.held():
            if self._consumer is not None:
                self._consumer.heartbeat_now(self.snapshot.offset)

    def clock_steady_for(self, seconds: float) -> bool:
        """Whether no live reader counts as dead after ``seconds`` because the store's clock was set."""
        return self._consumer is None or self._consumer.clock_steady_for(seconds)

    def _heartbeat_without_thread(self, offset: int) -> None:
        if self._thread is None and self._consumer is not None:
            self._consumer.heartbeat(offset)

    def _follow(self, gather: float) -> None:
        pauses = Pauses(_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        update: log_cursors.Update | None = None
        while not self._stopping.is_set():
            try:
                start, applied = self._reads.advance(update)
                self._subscribers.notify()
                if self._consumer is not None:
                    self._consumer.heartbeat(start.snapshot.offset)
                self._note(None)
                pauses.reset()
                rest = max(gather, _REST_SECONDS if applied else 0.0)
                if rest and self._stopping.wait(rest):
                    return
                update = self._wait(start)
            except errors.StoreError as error:
                # Callers of catch_up get the same error, readiness shows it.
                self._note(error)
                update = None
                self._stopping.wait(pauses.take())
            except Exception as error:
                self.error = error
                raise

    def _note(self, error: errors.StoreError | None) -> None:
        """Keep the error, and log where it begins and ends."""
        before, self.error = self.error, error
        if error is not None and before is None:
            telemetry.log.warning("cannot read the log", error=str(error))
        elif error is None and before is not None:
            telemetry.log.info("the log is read again")

    def _wait(self, start: log_cursors.Start) -> log_cursors.Update | None:
        """The entries that arrive after the start, none after a while; None if the head must be read."""
        began, here = time.monotonic(), start.snapshot
        self._watch.incarnation = here.position.incarnation
        try:
            read = self._watch.wait_for_entries(here.offset, start.appended_ms, milliseconds=_WAIT_MS)
        except (errors.Rewound, errors.Trimmed):
            return None
        return log_cursors.Update(began, start, read)
