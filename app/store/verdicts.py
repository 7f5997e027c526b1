"""What the auditor knows to be wrong with the store: looked at now and then, for readiness.

The auditor leaves its report in the store, so every extender learns of it, whichever it is. What was known
to be wrong stays so until a report says otherwise: an auditor that has died repairs nothing.
"""

import threading
import time

from app.store import errors, logs, reports

EVERY = 1.0
"""Seconds that an answer holds."""


class Verdict:
    """Whether the store can be relied on; may be asked by any thread."""

    def __init__(self, found: reports.Reports, log: logs.Log) -> None:
        self._reports = found
        self._log = log
        self._lock = threading.Lock()
        self._due = 0.0
        self._trouble: str | None = None

    def trouble(self) -> str | None:
        """What is wrong, and what to run; None if nothing is known. An old answer is looked up again."""
        if time.monotonic() >= self._due and self._lock.acquire(blocking=False):
            try:
                self._look()
                self._due = time.monotonic() + EVERY
            finally:
                self._lock.release()
        return self._trouble

    def _look(self) -> None:
        try:
            report = self._reports.latest()
        except errors.StoreAway:
            return
        except errors.StoreError:
            # The auditor writes another one over it.
            report = None
        if report is None or report.incarnation != self._log.incarnation:
            self._trouble = None
        else:
            self._trouble = report.trouble or None
