"""A result that is polled when it is requested and old, for the checks of readiness."""

import threading
import time
from collections.abc import Callable


class Poll:
    """Runs a refresh once its last result is old; thread-safe.

    One thread refreshes; the others use the last result meanwhile.
    """

    def __init__(self, refresh: Callable[[], float]) -> None:
        """``refresh``: the seconds for which its result is used."""
        self._refresh = refresh
        self._lock = threading.Lock()
        self._due = 0.0

    def run_if_due(self) -> None:
        """Refresh if the last result is old and no other thread does it."""
        if time.monotonic() >= self._due and self._lock.acquire(blocking=False):
            try:
                self._due = time.monotonic() + self._refresh()
            finally:
                self._lock.release()
