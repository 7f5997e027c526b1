"""Log lines on standard error and Prometheus metrics of the processes.

A line is a JSON object, or text on a terminal. Each call of a verb is one line and one observation
(calls.verb); all other lines are rare and use structlog. Telemetry must not slow down or fail the code
that it reports on.
"""

from app.telemetry import loops, metrics, questions, readiness
from app.telemetry.calls import fault, rejected, verb
from app.telemetry.log_setup import close, configure, log, now

__all__ = [
    "close",
    "configure",
    "fault",
    "log",
    "loops",
    "metrics",
    "now",
    "questions",
    "readiness",
    "rejected",
    "verb",
]
