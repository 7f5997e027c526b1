"""Exponential backoff, as in client-go's reflectors, and a clock that tests can replace."""

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Final, Protocol

_QUIET: Final = 120.0


class Clock(Protocol):
    """Monotonic time, and waiting that can be interrupted."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait so many seconds; returns true, without waiting further, once the clock is stopped."""
        ...


class RealClock:
    """The machine's monotonic clock."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def monotonic(self) -> float:
        """See Clock."""
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """See Clock."""
        return self._stopped.wait(seconds)

    def stop(self) -> None:
        """Interrupt the current wait and every later one."""
        self._stopped.set()


@dataclass
class Backoff:
    """Pauses of 0.8 s, doubled up to 30 s, each lengthened by a random part of itself.

    The series starts again after _QUIET seconds without a pause. All times are in seconds.
    """

    clock: Clock
    initial: float = 0.8
    cap: float = 30.0
    jitter: float = 1.0
    rng: random.Random = field(default_factory=random.Random)
    _next: float = 0.0
    _last: float = float("-inf")

    def pause(self, *, least: float = 0.0) -> float:
        """The length of the next pause, at least ``least`` seconds."""
        now = self.clock.monotonic()
        if now - self._last > _QUIET:
            self._next = self.initial
        self._last = now
        length, self._next = self._next, min(self.cap, self._next * 2)
        return max(least, length * (1.0 + self.jitter * self.rng.random()))

    def reset(self) -> None:
        """Start the series again."""
        self._next = self.initial
