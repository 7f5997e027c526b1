"""Several reflectors, one reader: what all kinds have to tell, in one bounded inbox.

Order holds within a kind. A reader that is slow makes the reflectors wait, and the API server with
them; nothing piles up here.
"""

import functools
import threading
import time
from collections import deque
from collections.abc import Iterable

from app import telemetry
from app.kube import reflecting

LIMIT = 8_192
"""Objects that may wait in an inbox; a whole part of a list fits in, even if that exceeds it."""


class Inbox:
    """A queue that counts objects, not messages, and hands out whatever has come together."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._changes: deque[reflecting.Change] = deque()
        self._weight = 0
        self._changed = threading.Condition()
        self._closed = False
        self._wanted = 1
        """So many objects are worth waking the reader for."""

    def put(self, change: reflecting.Change) -> bool:
        """Add a change; waits while the inbox is full. False if it was closed."""
        with self._changed:
            while self._weight >= self._limit and not self._closed:
                self._changed.wait()
            self._changes.append(change)
            self._weight += _weight(change)
            if self._weight >= self._wanted:
                self._changed.notify_all()
            return not self._closed

    def take(self, most: int, *, linger: float, timeout: float) -> list[reflecting.Change]:
        """Changes of about ``most`` objects, waiting ``linger`` seconds for more once there is one.

        Empty if nothing came within ``timeout`` seconds or the inbox was closed.
        """
        with self._changed:
            if not self._changes and not self._closed:
                self._changed.wait(timeout)
            end, self._wanted = time.monotonic() + linger, most
            while self._changes and self._weight < most and not self._closed:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            taken: list[reflecting.Change] = []
            weight = 0
            while self._changes and weight < most:
                taken.append(self._changes.popleft())
                weight += _weight(taken[-1])
            self._weight -= weight
            self._wanted = 1
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Gatherer:
    """A thread for each reflector, all putting into one inbox."""

    def __init__(self, reflectors: Iterable[reflecting.Reflector], inbox: Inbox) -> None:
        self.reflectors = tuple(reflectors)
        self._inbox = inbox
        self._stopped = threading.Event()
        self._loops = [
            telemetry.loops.Loop(
                f"watch-{one.kind.name}", functools.partial(self._gather, one), wait=self._stopped.wait
            )
            for one in self.reflectors
        ]

    def start(self) -> None:
        """Begin to list and watch."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """End the threads."""
        self._stopped.set()
        self._inbox.close()
        for reflector in self.reflectors:
            reflector.stop()
        for loop in self._loops:
            loop.join(timeout=5.0)

    def troubles(self) -> dict[str, str]:
        """Kind -> what stands in the way of its watch, for kinds that have trouble."""
        troubles = zip(self.reflectors, self._loops, strict=True)
        found = {one.kind.name: loop.trouble or one.trouble for one, loop in troubles}
        return {kind: trouble for kind, trouble in found.items() if trouble}

    @property
    def alive(self) -> bool:
        """No thread has died."""
        return all(loop.alive for loop in self._loops)

    def _gather(self, reflector: reflecting.Reflector) -> None:
        for change in reflector.changes():
            if not self._inbox.put(change):
                return


def _weight(change: reflecting.Change) -> int:
    return len(change.objects) if isinstance(change, reflecting.Part) else 1
