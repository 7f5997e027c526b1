"""Polls the auditor's report for problems of the store, for readiness.

The auditor writes its report to the store, where every extender reads it. A reported problem remains until
a later report clears it: an auditor that has died repairs nothing.
"""

from app.store import audit_reports, errors
from app.store.health import polled
from app.store.log import logs

EVERY = 1.0
"""Seconds for which a result is cached."""


class AuditVerdict:
    """The problem that the auditor reported; thread-safe."""

    def __init__(self, found: audit_reports.Reports, log: logs.Log) -> None:
        self._reports = found
        self._log = log
        self._problem: str | None = None
        self._poll = polled.Poll(self._refresh)

    def problem(self) -> str | None:
        """The problem, and what to run; None without one. An old result is read again."""
        self._poll.run_if_due()
        return self._problem

    def _refresh(self) -> float:
        try:
            report = self._reports.latest()
        except errors.StoreAway:
            return EVERY
        except errors.StoreError:
            # The auditor will replace it.
            report = None
        if report is None or report.incarnation != self._log.incarnation:
            self._problem = None
        else:
            self._problem = report.problem or None
        return EVERY
