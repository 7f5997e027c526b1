"""The value of an option that names a moment of the log."""

import re
import time
from datetime import UTC, datetime
from typing import Final

import click

_AGO: Final = re.compile(r"(?=\d)(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", re.ASCII)


def moment(text: str) -> str:
    """The text as the API takes it: a duration, such as ``24h`` or ``1h30m``, is that long before now."""
    match = _AGO.fullmatch(text)
    if match is None:
        return text
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    at = datetime.fromtimestamp(max(0.0, time.time() - 3600 * hours - 60 * minutes - seconds), UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Moment(click.ParamType[str]):
    """An offset, a position, an RFC 3339 time, or how long ago; the API refuses anything else."""

    name = "moment"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """What it may be, for the help."""
        return "OFFSET|TIME|AGO"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The moment as the API takes it."""
        return moment(value)


MOMENT: Final = Moment()
