"""The one line and the one observation of each call of a verb.

This is the hot path of the service: a call of 5,000 names is answered in about a millisecond, so
telling of it may take a few microseconds. Hence no structlog here: one struct, encoded at once.
"""

import time
from collections.abc import Mapping

import msgspec
from prometheus_client import Counter, Histogram

from app.telemetry import configuring, lines, metrics

out = lines.Lines(lines.to_standard_error)

_NOTHING: Mapping[str, int] = {}


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line as it is written; what is empty is left out."""

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
    """Tell of one call.

    ``outcome`` is one of a closed list (kept, refused, bound, error, ...); ``reasons`` counts the
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
    shape = configuring.shape
    if not shape.calls:
        return
    call = Call(
        time=now(),
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
        process=shape.process,
    )
    out.put(_for_people(call) if shape.console else _encode(call) + b"\n")


def rejected(name: str, why: str) -> None:
    """Tell of a request that was no valid call of the verb: a 4xx."""
    metrics.REJECTED.labels(name).inc()
    configuring.log.warning("request rejected", verb=name, reason=why)


def fault(name: str, pod: str, error: BaseException) -> None:
    """Tell of a fault of our own, with its traceback; the caller got an answer all the same."""
    metrics.FAULTS.labels(name).inc()
    configuring.log.error("fault", verb=name, pod=pod, exc_info=error)


_second = (0, "")


def now() -> str:
    """The wall clock as RFC 3339 in milliseconds; the part up to the second is made once a second."""
    global _second
    present = time.time()
    whole = int(present)
    at, text = _second
    if at != whole:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        _second = (whole, text)
    return f"{text}.{int((present - whole) * 1000):03d}Z"


def _for_people(call: Call) -> bytes:
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
    # A line break in a text that others chose must not look like a line of ours.
    text = " ".join(part for part in parts if part)
    return "".join(c if c.isprintable() else "?" for c in text).encode(errors="replace") + b"\n"
