"""Time that only the simulation advances, for all code that runs in it."""

import contextlib
import heapq
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from unittest import mock

CLOCKED = (
    "app.store.server.retries.time",
    "app.store.state.catch_up.time",
    "app.store.log.incarnations.time",
    "app.store.log.consumers.time",
    "app.kube.writes.binding.time",
    "app.kube.client.fast_client.time",
    "workers.recorder.log_writer.time",
    "workers.recorder.recorders.time",
)
"""Where modules read the clock: each reads the simulation's instead."""
DRAWN = (
    "app.store.log.incarnations.secrets",
    "app.store.log.sessions.secrets",
    "app.store.checkpoints.checkpoints.secrets",
)
"""Where modules draw unique names."""
_BEGAN = 1_780_000_000.0
"""The wall clock at the start of a simulation, in seconds."""


class Clock:
    """Monotonic seconds; replaces a module's ``time``, and is a ``clocks.Clock``."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waiting: Callable[[], None] = lambda: None
        """Called in the middle of every wait of a process, so that others can act."""
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int((_BEGAN + self.now) * 1e9)

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def wait(self, seconds: float) -> bool:
        self.advance(seconds)
        return False

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call ``action`` when that much time has passed."""
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), action))

    def advance(self, seconds: float) -> None:
        """Advance the time; actions are called at their moments."""
        end = self.now + max(0.0, seconds)
        while self._due and self._due[0][0] <= end:
            moment, _, action = heapq.heappop(self._due)
            self.now = max(self.now, moment)
            action()
        self.now = max(self.now, end)


class Waiting(threading.Event):
    """The stop event of a process that is never stopped: a wait advances the time, and others act."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.ended: Callable[[float], None] = lambda _: None
        """Called for each wait; an exception ends the waiting process."""

    def wait(self, timeout: float | None = None) -> bool:
        self.ended(timeout or 0.0)
        self._clock.advance((timeout or 0.0) / 2)
        self._clock.waiting()
        self._clock.advance((timeout or 0.0) / 2)
        return self.is_set()


class Lock:
    """A lock for one thread: a wait for it times out, and simulated time passes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        if self._held and blocking:
            assert timeout >= 0, "this would wait forever"
            self._clock.advance(timeout)
        taken, self._held = not self._held, True
        return taken

    def release(self) -> None:
        self._held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Names:
    """Replaces ``secrets``: names from a generator of its own, the same in every run."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def token_hex(self, size: int) -> str:
        return self._rng.randbytes(size).hex()


@contextlib.contextmanager
def installed(clock: Clock, seed: int = 0) -> Iterator[Clock]:
    """The clock in place of the machine's, and names that follow from the seed."""
    names = Names(seed)
    with contextlib.ExitStack() as stack:
        for place in CLOCKED:
            stack.enter_context(mock.patch(place, clock))
        for place in DRAWN:
            stack.enter_context(mock.patch(place, names))
        yield clock
