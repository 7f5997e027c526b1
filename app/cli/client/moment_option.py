"""The value of an option that names a moment of the log."""

import re
import time
from datetime import UTC, datetime
from typing import Final

import click

from app import clocks

_AGO: Final = re.compile(r"(?=\d)(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", re.ASCII)
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_OTHER: Final = re.compile(r"(?:[^/\s]+/)?\d+|\d{4}-\d\d-\d\d[Tt]\S+( \S+)?", re.ASCII)
"""An offset, a position, or what begins as a time does."""


def moment(text: str) -> str:
    """The text as the API takes it: a duration, such as ``7d`` or ``1h30m``, is that long before now, and a
    clock time, such as ``12:00``, is of today in UTC, in which commands write all times.
    """
    if match := _CLOCK.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in match.groups())
        at = datetime.fromtimestamp(time.time(), UTC)
        at = at.replace(hour=hour, minute=minute, second=second, microsecond=0)
    elif match := _AGO.fullmatch("0s" if text == "now" else text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        ago = 86_400 * days + 3600 * hours + 60 * minutes + seconds
        at = datetime.fromtimestamp(max(0.0, time.time() - ago), UTC)
    else:
        return text
    return clocks.rfc3339(at.timestamp(), "milliseconds")


class Moment(click.ParamType[str]):
    """An offset, a position, a time, ``now``, or how long ago; anything else is a usage error."""

    name = "moment"

    def __init__(self, *, present: bool) -> None:
        """``present``: ``now`` is empty, for the present of the API, whose clock is not that of this machine:
        that of a bundle stands still.
        """
        self._present = present

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """What it may be, for the help."""
        return "OFFSET|TIME|AGO"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The moment as the API takes it; the API checks whether the log covers it."""
        if value == "now" and self._present:
            return ""
        found = moment(value)
        if _OTHER.fullmatch(found) is None:
            self.fail(
                f"{value!r} is not a moment: write an offset of the log, a position, a time such as"
                " 2026-07-01T12:00:00Z or 12:00 (today, UTC), now, or how long ago, such as 90s, 24h or 7d",
                param,
                ctx,
            )
        return found


MOMENT: Final = Moment(present=True)
STRETCH: Final = Moment(present=False)
"""Of a stretch of time, whose ends are not the present by default."""
