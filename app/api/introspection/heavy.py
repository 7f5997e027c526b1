"""One heavy question at a time: several would only delay each other and every other answer."""

import contextlib
import threading
from collections.abc import Iterator

from app.api import errors

WAITING = 4
"""Requests that may wait for the one at work."""
PATIENCE = 2.0
"""Seconds that they wait."""


class OneAtATime:
    """Admits one request at a time; the others wait for a short time, or are refused with 429."""

    def __init__(self, *, waiting: int = WAITING, patience: float = PATIENCE) -> None:
        self._places = threading.BoundedSemaphore(waiting + 1)
        self._working = threading.Lock()
        self._patience = patience

    @contextlib.contextmanager
    def admitted(self) -> Iterator[None]:
        """Hold the place of the one at work. Raises Problem 429."""
        if not self._places.acquire(blocking=False):
            raise _busy()
        try:
            if not self._working.acquire(timeout=self._patience):
                raise _busy()
            try:
                yield
            finally:
                self._working.release()
        finally:
            self._places.release()


def _busy() -> errors.Problem:
    return errors.Problem(429, "TooManyRequests", "another heavy question is being answered: retry later")
