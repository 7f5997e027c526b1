"""Parses times (RFC 3339) and durations (Go's 5m or 1h30m) of a query."""

import re
from datetime import UTC, datetime, timedelta

from app import clocks

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
"""The last millisecond since 1970 that a time can show, in the year 9999."""
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+ -]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", re.ASCII)


def milliseconds(text: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 time; raises ValueError.

    Accepts a space as the ``+`` of the offset: query strings decode it so.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-07-01T12:00:00Z")
    day, clock, fraction, zone = match.groups("")
    zone = zone.upper().replace(" ", "+")
    moment = datetime.fromisoformat(f"{day}T{clock}.{fraction[:6].ljust(6, '0')}{zone}")
    try:
        return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except OverflowError as error:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC") from error


def seconds(text: str) -> int:
    """Seconds of a duration such as ``90s``, ``5m`` or ``1h30m``; raises ValueError."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration such as 90s, 5m or 1h30m")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + rest


def rfc3339(since_1970: float) -> str:
    """A time in UTC with milliseconds."""
    return clocks.rfc3339(since_1970, "milliseconds")
