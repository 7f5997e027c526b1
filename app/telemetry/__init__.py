"""What the processes tell of themselves: log lines on standard error, and metrics.

Lines are one JSON object each, or text for people on a terminal. Every call of a verb is one line
and one observation (calls.verb); everything else is logged through structlog and rare. Nothing
here may slow down or fail what it tells of.
"""

from app.telemetry import loops, metrics
from app.telemetry.calls import fault, now, rejected, verb
from app.telemetry.configuring import configure, log

__all__ = ["configure", "fault", "log", "loops", "metrics", "now", "rejected", "verb"]
