"""Waiting longer and longer, as client-go's reflectors do, and a clock that tests can replace."""

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """Time that passes evenly, and waiting that can be called off."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; true at once if waiting was called off, by whoever is to stop."""
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
        """Call off this and every later waiting."""
        self._stopped.set()


@dataclass
class Backoff:
    """First 0.8 s, doubled up to 30 s, each stretched by up to its own length; anew after 2 quiet minutes."""

    clock: Clock
    initial: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    quiet: float = 120.0
    die: random.Random = field(default_factory=random.Random)
    _next: float = 0.0
    _last: float = float("-inf")

    def pause(self, *, least: float = 0.0) -> float:
        """The seconds to wait now, at least ``least``."""
        now = self.clock.monotonic()
        if now - self._last > self.quiet:
            self._next = self.initial
        self._last = now
        length, self._next = self._next, min(self.cap, self._next * self.factor)
        return max(least, length * (1.0 + self.jitter * self.die.random()))

    def reset(self) -> None:
        """Start anew."""
        self._next = self.initial
