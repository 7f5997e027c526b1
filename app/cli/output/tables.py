"""Tables, as commands write them; documents are written by ``formats``."""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

_GAP = "  "
_CUT = "..."
_PRECISE = 10.0
"""Seconds below which a duration shows tenths."""
_NOTED = f"{__name__}.cut"


class Table:
    """A table that is written in parts; a column becomes wider if a later part needs it."""

    def __init__(
        self,
        headers: Sequence[str],
        *,
        heading: bool = True,
        whole: bool = False,
        widths: Sequence[int] = (),
    ) -> None:
        """``heading``: whether the headers are written, above the first rows; ``whole``: cut no line;
        ``widths``: those of the first columns at least, in characters."""
        self._headers = list(headers)
        self._heading = heading
        self._whole = whole
        least = (*widths, *(0 for _ in headers))
        self._widths = [
            max(len(header) if heading else 0, width) for header, width in zip(headers, least, strict=False)
        ]

    def write(self, rows: Iterable[Sequence[object]]) -> None:
        """Write rows; a line that is longer than that of a terminal ends in three dots there."""
        texts = [[cell(value) for value in row] for row in rows]
        if not texts:
            return
        lines = [self._headers, *texts] if self._heading else texts
        self._heading = False
        self._widths = [max(width, *(len(line[i]) for line in lines)) for i, width in enumerate(self._widths)]
        padded = [
            _GAP.join(text.ljust(width) for text, width in zip(line, self._widths, strict=True)).rstrip()
            for line in lines
        ]
        limit = _width(max(map(len, padded))) if not self._whole else None
        for line in padded:
            click.echo(line if limit is None or len(line) <= limit else line[: limit - len(_CUT)] + _CUT)
        if limit is not None:
            _note_once(limit)


def _width(longest: int) -> int | None:
    """The width at which lines are cut; None if no line is cut."""
    if not sys.stdout.isatty():
        return None
    limit = max(shutil.get_terminal_size().columns, len(_CUT))
    return limit if longest > limit else None


def _note_once(limit: int) -> None:
    """Write that lines are cut, once for a command."""
    context = click.get_current_context(silent=True)
    meta = context.meta if context is not None else {}
    if not meta.get(_NOTED):
        click.echo(f"lines are cut at {limit} columns; through a pipe (| cat) they are whole", err=True)
    meta[_NOTED] = True


def show(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str = "nothing found",
    heading: bool = True,
) -> None:
    """Write a table, or a sentence to standard error if it has no rows."""
    found = list(rows)
    if not found:
        click.echo(empty, err=True)
    Table(headers, heading=heading).write(found)


def cell(value: object) -> str:
    """A value as one line of text: control characters and line breaks become spaces."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case Mapping() if any(isinstance(inner, Mapping | list) for inner in value.values()):
            return cell(json.dumps(value, ensure_ascii=False))
        case Mapping():
            return cell(", ".join(f"{key}={inner}" for key, inner in value.items()))
        case list() | tuple():
            gap = "; " if any(map(_has_commas, value)) else ", "
            return cell(gap.join(cell(inner) for inner in value))
        case _:
            return "".join(c if c.isprintable() else " " for c in str(value))


def _has_commas(value: object) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, str) and ", " in value)


def heading(field: str) -> str:
    """The heading of a field: ``inFlight`` is IN FLIGHT."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", field).upper()


def age(seconds: float) -> str:
    """A duration in its largest unit, as kubectl writes it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


def duration(seconds: float) -> str:
    """A duration of one object: as ``age``, and with a tenth of a second while these matter."""
    return f"{seconds:.1f}s" if seconds < _PRECISE else age(seconds)


def pick(item: Mapping[str, Any], path: str) -> object:
    """The value at a dotted path, or None.

    ``a+b`` joins two values with a slash; ``a#`` formats a mapping of counts as ``3 this; 1 that``; ``a~``
    formats seconds as an age; ``a.0`` is the first item of a list.
    """
    if "+" in path:
        return "/".join(cell(pick(item, part)) for part in path.split("+"))
    if path.endswith("~"):
        seconds = pick(item, path[:-1])
        return age(seconds) if isinstance(seconds, int | float) else None
    if path.endswith("#"):
        counts = pick(item, path[:-1])
        by_name = counts if isinstance(counts, Mapping) else {}
        return "; ".join(f"{number} {what}" for what, number in by_name.items())
    value: Any = item
    for part in path.split("."):
        if isinstance(value, list):
            value = value[int(part)] if part.isdigit() and int(part) < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value
