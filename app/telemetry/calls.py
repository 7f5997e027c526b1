"""Logs and measures calls of the verbs: one line and one observation per call.

A call of 5,000 names takes about a millisecond, so that reporting it may take a few microseconds. For
that reason the line is one encoded struct and does not pass through structlog.
"""

from collections.abc import Mapping

import msgspec
from prometheus_client import Counter, Histogram

from app.telemetry import log_lines, log_setup, metrics

out = log_lines.LineWriter(log_lines.to_standard_error)

_NOTHING: Mapping[str, int] = {}


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a line; empty ones are omitted."""

    time: str
    level: str
    event: str
    verb: str
    pod: str
    outcome: str
    candidates: int
    kept: int
    milliseconds: float
    position: str = ""
    reasons: Mapping[str, int] = {}
    node: str = ""
    error: str = ""
    process: str = ""


_encode = msgspec.json.Encoder().encode
_observers: dict[tuple[str, str], Histogram] = {}
_counters: dict[str, Counter] = {}


def verb(
    name: str,
    pod: str,
    *,
    outcome: str,
    seconds: float,
    candidates: int = 0,
    kept: int = 0,
    reasons: Mapping[str, int] = _NOTHING,
    refusals: Mapping[str, int] = _NOTHING,
    position: str = "",
    node: str = "",
    error: str = "",
) -> None:
    """Report one call.

    ``outcome`` is one of a closed set (kept, refused, bound, error, ...); ``reasons`` counts the
    refused candidates by sentence and ``refusals`` by plugin; ``position`` is that of the snapshot.
    """
    observer = _observers.get((name, outcome))
    if observer is None:
        observer = _observers[name, outcome] = metrics.VERB_SECONDS.labels(name, outcome)
    observer.observe(seconds)
    for plugin, count in refusals.items():
        counter = _counters.get(plugin)
        if counter is None:
            counter = _counters[plugin] = metrics.REFUSALS.labels(plugin)
        counter.inc(count)
    line_format = log_setup.line_format
    if not line_format.calls:
        return
    call = Call(
        time=log_setup.now(),
        level="warning" if error else "info",
        event="call",
        verb=name,
        pod=pod,
        outcome=outcome,
        candidates=candidates,
        kept=kept,
        milliseconds=round(seconds * 1000, 3),
        position=position,
        reasons=reasons,
        node=node,
        error=error,
        process=line_format.process,
    )
    out.put(_as_text(call) if line_format.console else _encode(call) + b"\n")


def rejected(name: str, why: str) -> None:
    """Report a malformed request: a 4xx."""
    metrics.REJECTED.labels(name).inc()
    log_setup.log.warning("request rejected", verb=name, reason=why)


def fault(name: str, pod: str, error: BaseException) -> None:
    """Report an internal error with its traceback; the caller received a response nevertheless."""
    metrics.FAULTS.labels(name).inc()
    log_setup.log.error("internal error", verb=name, pod=pod, exc_info=error)


def _as_text(call: Call) -> bytes:
    reasons = "; ".join(f"{count} x {reason}" for reason, count in call.reasons.items())
    parts = [
        f"{call.time} {call.verb} {call.pod} {call.outcome}",
        f"{call.kept} of {call.candidates}" if call.candidates else "",
        f"on {call.node}" if call.node else "",
        f"({reasons})" if reasons else "",
        call.error,
        f"{call.milliseconds} ms",
        f"at {call.position}" if call.position else "",
    ]
    # A line break in text from outside must not forge a log line.
    text = " ".join(part for part in parts if part)
    return "".join(c if c.isprintable() else "?" for c in text).encode(errors="replace") + b"\n"
