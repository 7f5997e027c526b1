"""Since when this process has known of promises that stand in the way.

The age of a promise is told by the monotonic clock of whoever met it, never by the wall clock of
whoever made it: a promise is at least as old as that.
"""

import threading
from collections import OrderedDict

from app.domain import model

Promise = tuple[model.Uid, model.Position]
"""Pod, and where it was promised: a promise made anew is another one."""


class Meetings:
    """The promises that were met lately; safe between threads."""

    def __init__(self, kept: int = 4096) -> None:
        self._kept = kept
        self._met: OrderedDict[Promise, float] = OrderedDict()
        self._lock = threading.Lock()

    def since(self, promise: Promise, now: float) -> float:
        """When the promise was first met, in monotonic seconds: now, if it was not met before."""
        with self._lock:
            if promise not in self._met and len(self._met) >= self._kept:
                self._met.popitem(last=False)
            return self._met.setdefault(promise, now)
