"""Tables, as commands write them; documents are written by ``formats``."""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from app.cli.output import notes

_GAP = "  "
_CUT = "..."
_LEAST = 10
"""Characters of a cell that is cut, at least; where there is less space than these need, lines are cut."""
_OF_ALL = re.compile(r"0 of (?P<nodes>\d+) nodes fit: (?P=nodes) (?P<reason>.+)", re.DOTALL)
_PRECISE = 10.0
"""Seconds below which a duration shows tenths."""


class Table:
    """A table that is written in parts; a column becomes wider if a later part needs it."""

    def __init__(
        self,
        headers: Sequence[str],
        *,
        heading: bool = True,
        whole: bool = False,
        wide: bool = False,
        widths: Sequence[int] = (),
    ) -> None:
        """``heading``: whether the headers are written, above the first rows; ``whole``: cut no line;
        ``wide``: -o wide writes the same table whole; ``widths``: those of the first columns at least, in
        characters."""
        self._headers = list(headers)
        self._heading = heading
        self._whole = whole
        self._wide = wide
        least = (*widths, *(0 for _ in headers))
        self._widths = [
            max(len(header) if heading else 0, width) for header, width in zip(headers, least, strict=False)
        ]

    def write(self, rows: Iterable[Sequence[object]]) -> None:
        """Write rows. Where lines are longer than those of a terminal, the columns with texts of several
        words share the width; what is cut ends in three dots."""
        texts = [[cell(value) for value in row] for row in rows]
        if not texts:
            return
        lines = [self._headers, *texts] if self._heading else texts
        self._heading = False
        self._widths = [max(width, *(len(line[i]) for line in lines)) for i, width in enumerate(self._widths)]
        padded = _padded(lines, self._widths)
        limit = _width(max(map(len, padded))) if not self._whole else None
        if limit is None:
            click.echo("\n".join(padded))
            return
        for line in _padded(lines, _shared(self._widths, _of_words(texts), limit)):
            click.echo(_ended(line, limit))
        whole = "with -o wide, or through a pipe (| cat)," if self._wide else "through a pipe (| cat)"
        notes.once("cut", f"lines are cut at {limit} columns; {whole} they are whole")


def _padded(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    return [
        _GAP.join(_ended(text, width).ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _ended(text: str, width: int) -> str:
    """The text in this width; one that is cut ends in three dots."""
    return text if len(text) <= width else text[: width - len(_CUT)] + _CUT


def _of_words(rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns with texts of several words. The others are names, numbers and times, which are of no use
    if they are cut."""
    return [at for at in range(len(rows[0])) if any(" " in row[at] for row in rows)]


def _shared(widths: Sequence[int], elastic: Sequence[int], limit: int) -> list[int]:
    """The widths, where the elastic columns share what the others leave of the limit, if that is enough."""
    gaps = len(_GAP) * (len(widths) - 1)
    space = limit - gaps - sum(width for at, width in enumerate(widths) if at not in elastic)
    shared = list(widths)
    if space < _LEAST * len(elastic):
        return shared
    for done, at in enumerate(sorted(elastic, key=widths.__getitem__)):
        shared[at] = min(widths[at], space // (len(elastic) - done))
        space -= shared[at]
    return shared


def _width(longest: int) -> int | None:
    """The width at which lines are cut; None if no line is cut."""
    if not sys.stdout.isatty():
        return None
    limit = max(shutil.get_terminal_size().columns, len(_CUT))
    return limit if longest > limit else None


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


def parts(path: str) -> list[str]:
    """The dotted paths of the values that ``pick`` takes for a path."""
    return path.rstrip("#~!").split("+")


def pick(item: Mapping[str, Any], path: str) -> object:
    """The value at a dotted path, or None.

    ``a+b`` joins two values with a slash; ``a#`` formats a mapping of counts as ``3 this; 1 that``; ``a~``
    formats seconds as an age; ``a!`` is a reason without the number of nodes, if it is that of all nodes;
    ``a.0`` is the first item of a list.
    """
    if "+" in path:
        return "/".join(cell(pick(item, part)) for part in path.split("+"))
    if path.endswith("~"):
        seconds = pick(item, path[:-1])
        return age(seconds) if isinstance(seconds, int | float) else None
    if path.endswith("!"):
        reason = pick(item, path[:-1])
        alone = _OF_ALL.fullmatch(reason) if isinstance(reason, str) else None
        return alone["reason"] if alone else reason
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
