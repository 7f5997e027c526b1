"""Paths into a document: ``--sort-by``, ``-o jsonpath`` and the columns of ``-o custom-columns``.

A path is a JSONPath of RFC 9535. kubectl's ``.name`` and ``{.name}`` mean ``$.name`` here as there; its
templates (``{range ...}``, several braces) are another language and are refused.
"""

import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Find = Callable[[object], list[Any]]
"""The values of a path in a document, in its order."""
_BRACED = re.compile(r"\{([^{}]*)\}")
_OPENING, _CLOSING, _QUOTES = "[(", "])", "'\""


class Wrong(ValueError):
    """A path or a list of columns that cannot be read; the message has what to write instead."""


def compiled(path: str) -> Find:
    """What finds the values of a path. Raises Wrong."""
    import jsonpath_rfc9535

    written = path.strip()
    braced = _BRACED.fullmatch(written)
    inner = braced[1].strip() if braced else written
    try:
        query = jsonpath_rfc9535.compile(f"${inner}" if inner.startswith((".", "[")) else inner)
    except jsonpath_rfc9535.JSONPathError as problem:
        raise Wrong(f"{path!r} {_flaw(inner, problem)}") from problem
    # Through JSON: a document may hold tuples, which are arrays there.
    return lambda document: list(query.find(json.loads(json.dumps(document))).values())


def _flaw(inner: str, problem: Exception) -> str:
    """What is wrong with a text that is not a path, and what to write instead."""
    if "{" in inner or inner.startswith("range "):
        return "is a template of kubectl; write one path, such as .name, or format -o json by jq"
    if not inner.startswith(("$", ".", "[")):
        return f"is not a path; write .{inner or 'name'}"
    return f"is not a path such as .name, or a JSONPath of RFC 9535: {problem}"


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns that the user chose."""

    headings: Sequence[str]
    finds: Sequence[Find]

    def row(self, item: object) -> list[object]:
        """The cells of an item: nothing, a value, or the list of several."""
        found = [find(item) for find in self.finds]
        return [(values[0] if len(values) == 1 else values) if values else None for values in found]


def columns(spec: str) -> Columns:
    """The columns of ``NAME:.name,CPU:.remaining.cpu``. Raises Wrong."""
    pairs = [part.partition(":") for part in _split(spec)]
    for at, (heading, colon, path) in enumerate(pairs, 1):
        if not (heading.strip() and colon and path.strip()):
            given = "".join((heading, colon, path))
            raise Wrong(f"column {at}, {given!r}, is not HEADING:PATH; write NAME:.name,CPU:.remaining.cpu")
    return _columns([(heading.strip(), path) for heading, _, path in pairs])


def columns_of_file(name: str) -> Columns:
    """The columns of a file: headings on the first line, their paths on the second. Raises Wrong."""
    try:
        text = pathlib.Path(name).read_text(encoding="utf-8")
    except OSError as problem:
        raise Wrong(f"cannot read the file {name!r}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise Wrong(f"cannot read the file {name!r}: byte {problem.start} is not UTF-8") from problem
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) != 2:
        raise Wrong(f"the file {name!r} has {len(lines)} lines; write headings on one and paths on the next")
    headings, paths = lines
    if len(headings) != len(paths):
        raise Wrong(f"the file {name!r} has {len(headings)} headings and {len(paths)} paths; write as many")
    return _columns(list(zip(headings, paths, strict=True)))


def _columns(pairs: Sequence[tuple[str, str]]) -> Columns:
    finds = []
    for heading, path in pairs:
        try:
            finds.append(compiled(path))
        except Wrong as wrong:
            raise Wrong(f"column {heading}: {wrong}") from wrong
    return Columns([heading for heading, _ in pairs], finds)


def _split(spec: str) -> list[str]:
    """The parts between commas that are in no bracket and no quotes."""
    parts, depth, quote = [""], 0, ""
    for one in spec:
        if one == "," and not depth and not quote:
            parts.append("")
            continue
        parts[-1] += one
        if quote:
            quote = "" if one == quote else quote
        elif one in _QUOTES:
            quote = one
        else:
            depth += (one in _OPENING) - (one in _CLOSING)
    return parts


# -- sorting -----------------------------------------------------------------------------------


def ordered(items: Sequence[Mapping[str, Any]], path: str) -> list[Mapping[str, Any]]:
    """The items by the value at a path, those without one first, as kubectl has them; equal ones as given.

    Numbers and quantities (``500m``, ``2Gi``) are compared as numbers, texts by the numbers in them (``n9``
    before ``n10``). Raises Wrong if no item has a value.
    """
    find = compiled(path)
    found = [find(item) for item in items]
    if items and not any(found):
        fields = ", ".join(f".{name}" for name in items[0])
        raise Wrong(f"no item has a value at {path!r}; the first one has {fields}")
    keyed = sorted(zip(map(_key, found), range(len(items)), strict=True))
    return [items[at] for _, at in keyed]


def _key(values: Sequence[Any]) -> tuple[Any, ...]:
    """Comparable for any values: those of another kind have another first part."""
    value = values[0] if values else None
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    number = _number(value)
    if number is not None:
        return (2, number)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    # Split by a group, digits are at odd places.
    parts = re.split(r"([0-9]{1,18})", text)
    return (3, [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(parts)], text)


def _number(value: object) -> float | int | None:
    if isinstance(value, int | float):
        return value
    from app.domain.fit import quantities

    try:
        # Those of cpu are in thousandths, which keeps 500m below 1.
        return quantities.parse(value, "cpu") / 1000 if isinstance(value, str) else None
    except ValueError:
        return None
