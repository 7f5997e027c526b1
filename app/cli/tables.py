"""Tables, as commands write them; documents are written by ``formats``."""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

_GAP = "  "


def show(headers: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "nothing found") -> None:
    """Write a table; lines are cut at the width of a terminal, never in a file or pipe."""
    texts = [[cell(value) for value in row] for row in rows]
    if not texts:
        click.echo(empty, err=True)
        return
    widths = [max(len(line[i]) for line in [list(headers), *texts]) for i in range(len(headers))]
    limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in [list(headers), *texts]:
        padded = _GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        click.echo(padded[:limit])


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
            return cell(", ".join(cell(inner) for inner in value))
        case _:
            return "".join(c if c.isprintable() else " " for c in str(value))


def pick(item: Mapping[str, Any], path: str) -> object:
    """The value at a dotted path, or None.

    ``a+b`` joins two values with a slash; ``a#`` formats a mapping of counts as ``3 this; 1 that``; ``a.0``
    is the first item of a list.
    """
    if "+" in path:
        return "/".join(cell(pick(item, part)) for part in path.split("+"))
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
