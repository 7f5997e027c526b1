"""Polls the auditor's report for problems of the store, for readiness.

The auditor writes its report to the store, where every extender reads it. A reported problem remains until
a later report clears it: an auditor that has died repairs nothing.
"""

import threading
import time

from app.store import audit_reports, errors
from app.store.log import logs

EVERY = 1.0
"""Seconds for which a result is cached."""


class AuditVerdict:
    """The problem that the auditor reported; thread-safe."""

    def __init__(self, found: audit_reports.Reports, log: logs.Log) -> None:
        self._reports = found
        self._log = log
        self._lock = threading.Lock()
        self._due = 0.0
        self._problem: str | None = None

    def problem(self) -> str | None:
        """The problem, and what to run; None without one. An old result is read again."""
        if time.monotonic() >= self._due and self._lock.acquire(blocking=False):
            try:
                self._refresh()
                self._due = time.monotonic() + EVERY
            finally:
                self._lock.release()
        return self._problem

    def _refresh(self) -> None:
        try:
            report = self._reports.latest()
        except errors.StoreAway:
            return
        except errors.StoreError:
            # The auditor will replace it.
            report = None
        if report is None or report.incarnation != self._log.incarnation:
            self._problem = None
        else:
            self._problem = report.problem or None
