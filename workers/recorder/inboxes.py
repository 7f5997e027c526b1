"""Merges the watch streams of all kinds into one bounded queue.

Order is preserved within a kind. A slow reader makes the watches wait, and with them the API server; no
backlog grows here.
"""

import functools
import threading
import time
from collections import deque
from collections.abc import Iterable

from app import telemetry
from app.kube.watch import reflectors

LIMIT = 8_192
"""Objects that may wait in an inbox; a whole part of a list is accepted even if it exceeds the limit."""
_ENDING = 5.0
"""Seconds within which the threads end, or are left: they have an inbox that is closed."""


class Inbox:
    """A queue of changes that is measured in objects, not in changes, and read in batches."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._changes: deque[reflectors.Change] = deque()
        self._objects = 0
        self._changed = threading.Condition()
        self._closed = False
        self._wake_at = 1
        """Number of objects at which the reader is woken."""

    def put(self, change: reflectors.Change) -> bool:
        """Add a change; waits while the inbox is full. False if it was closed."""
        with self._changed:
            while self._objects >= self._limit and not self._closed:
                self._changed.wait()
            self._changes.append(change)
            self._objects += _objects(change)
            if self._objects >= self._wake_at:
                self._changed.notify_all()
            return not self._closed

    def take(self, limit: int, *, linger: float, timeout: float) -> list[reflectors.Change]:
        """Changes of about ``limit`` objects, waiting ``linger`` seconds for more once there is one.

        Empty if nothing arrived within ``timeout`` seconds or the inbox was closed.
        """
        with self._changed:
            if not self._changes and not self._closed:
                self._changed.wait(timeout)
            end, self._wake_at = time.monotonic() + linger, limit
            while self._changes and self._objects < limit and not self._closed:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            taken: list[reflectors.Change] = []
            objects = 0
            while self._changes and objects < limit:
                taken.append(self._changes.popleft())
                objects += _objects(taken[-1])
            self._objects -= objects
            self._wake_at = 1
            self._changed.notify_all()
            return taken

    @property
    def length(self) -> int:
        """Number of objects that wait."""
        return self._objects

    def close(self) -> None:
        """Release every waiting thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class WatchThreads:
    """One thread for each reflector, all putting into one inbox."""

    def __init__(self, sources: Iterable[reflectors.Reflector], inbox: Inbox) -> None:
        self.sources = tuple(sources)
        self._inbox = inbox
        self._stopped = threading.Event()
        self._loops = [
            telemetry.loops.Loop(
                f"watch-{one.kind.name}", functools.partial(self._watch, one), wait=self._stopped.wait
            )
            for one in self.sources
        ]

    def start(self) -> None:
        """Begin to list and watch."""
        telemetry.metrics.QUEUE_LENGTH.set_function(lambda: self._inbox.length)
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """End the threads."""
        self._stopped.set()
        self._inbox.close()
        for reflector in self.sources:
            reflector.stop()
        # One limit for all: while no request is answered, each of them waits as long.
        end = time.monotonic() + _ENDING
        for loop in self._loops:
            loop.join(timeout=max(0.0, end - time.monotonic()))
        # On standby nothing is watched, and an old time would look like a watch that hangs.
        telemetry.metrics.WATCH_PROGRESS.clear()
        telemetry.metrics.QUEUE_LENGTH.forget()

    def problems(self) -> dict[str, str]:
        """Kind -> problem of its watch, for the kinds that have one."""
        found = {
            one.kind.name: loop.problem or one.problem
            for one, loop in zip(self.sources, self._loops, strict=True)
        }
        return {kind: problem for kind, problem in found.items() if problem}

    @property
    def alive(self) -> bool:
        """No thread has died."""
        return all(loop.alive for loop in self._loops)

    def _watch(self, reflector: reflectors.Reflector) -> None:
        kind, progress = reflector.kind.name, telemetry.metrics.WATCH_PROGRESS
        if not reflector.absent:
            progress.labels(kind)  # 0, which shows a first list that never succeeds.
        for change in reflector.changes():
            if reflector.absent:
                progress.remove(kind)  # Nothing is received, and nothing is missed.
            else:
                progress.labels(kind).set_to_current_time()
            if not self._inbox.put(change):
                return


def _objects(change: reflectors.Change) -> int:
    return len(change.objects) if isinstance(change, reflectors.Part) else 1
