"""Retries of idempotent calls within a deadline."""

import time

from app.pauses import Pauses

_LEAST_SECONDS = 0.01
_ATTEMPT_SECONDS = 1.0
"""What one attempt may take."""
_USEFUL_SECONDS = 0.05
"""Below this an attempt would often time out, and its error hide the reason of the former one."""


class RetryDeadline:
    """A deadline for retries, with growing pauses."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._pauses = Pauses(0.005, 0.1)

    @property
    def left(self) -> float:
        """Seconds until the end, never quite 0."""
        return max(_LEAST_SECONDS, self._deadline - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._deadline

    @property
    def attempt(self) -> float:
        """Seconds that one attempt may take."""
        return min(_ATTEMPT_SECONDS, self.left)

    def again(self) -> bool:
        """Pause before another attempt; false at once if there is no time for one."""
        if time.monotonic() + self._pauses.following + _USEFUL_SECONDS >= self._deadline:
            return False
        time.sleep(self._pauses.take())
        return True
