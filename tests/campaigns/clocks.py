"""Time that passes only when somebody says so, for everything that runs in one simulation."""

import contextlib
import heapq
import itertools
from collections.abc import Callable, Iterator
from unittest import mock

CLOCKED = (
    "app.store.retrying.time",
    "app.store.following.time",
    "app.kube.binding.time",
    "workers.recording.time",
)
"""Where modules read the clock themselves: each sees the simulation's instead."""


class Clock:
    """Monotonic seconds; also what a module finds under the name ``time``, and a ``backoffs.Clock``."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def wait(self, seconds: float) -> bool:
        self.advance(seconds)
        return False

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something happen once the time has come."""
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), action))

    def advance(self, seconds: float) -> None:
        """Let time pass, and what is due happen at its moment."""
        end = self.now + max(0.0, seconds)
        while self._due and self._due[0][0] <= end:
            moment, _, action = heapq.heappop(self._due)
            self.now = max(self.now, moment)
            action()
        self.now = max(self.now, end)


@contextlib.contextmanager
def installed(clock: Clock) -> Iterator[Clock]:
    """The clock in place of the machine's."""
    with contextlib.ExitStack() as stack:
        for place in CLOCKED:
            stack.enter_context(mock.patch(place, clock))
        yield clock
