"""Exponential backoff, as in client-go's reflectors."""

import random
from typing import Final

from app import clocks
from app.pauses import Pauses

_QUIET: Final = 120.0


class Backoff:
    """Pauses of 0.8 s, doubled up to 30 s, each lengthened by a random part of itself.

    The series starts again after _QUIET seconds without a pause. All times are in seconds.
    """

    def __init__(
        self,
        clock: clocks.Clock,
        *,
        initial: float = 0.8,
        cap: float = 30.0,
        jitter: float = 1.0,
        rng: random.Random | None = None,
    ) -> None:
        self._clock = clock
        self._pauses = Pauses(initial, cap)
        self._jitter = jitter
        self._rng = rng or random.Random()
        self._last = float("-inf")

    def pause(self, *, least: float = 0.0) -> float:
        """The length of the next pause, at least ``least`` seconds."""
        now = self._clock.monotonic()
        if now - self._last > _QUIET:
            self._pauses.reset()
        self._last = now
        return max(least, self._pauses.take() * (1.0 + self._jitter * self._rng.random()))

    def reset(self) -> None:
        """Start the series again."""
        self._pauses.reset()
