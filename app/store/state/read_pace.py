"""Paces the reads of past entries and of decision records: at most half of the store's time is one process's.

The server replies to one client at a time: behind one long read after the other every verb waits.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

MAX_PAUSE = 1.0
"""Seconds after one piece: a read that took longer has waited for a connection, or for the store."""


class Pace:
    """Leaves the server alone after each piece for as long as its read took, at most ``MAX_PAUSE``.

    What the caller does meanwhile counts, so a fold that takes longer than its reads does not pause. All
    threads share it: of two that read at once, the time of each contains that of the other, so there is no
    lock to wait at.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``clock``: seconds; ``sleep``: waits for so many of them."""
        self._clock = clock
        self._sleep = sleep
        self._resumes = clock()
        """When the next piece may be read."""

    @contextlib.contextmanager
    def piece(self) -> Iterator[None]:
        """Wait for the end of the pause; the block reads one piece, and nothing else."""
        while (left := self._resumes - self._clock()) > 0:
            self._sleep(left)
        began = self._clock()
        yield
        ended = self._clock()
        self._resumes = ended + min(ended - began, MAX_PAUSE)
