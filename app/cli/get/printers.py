"""Prints for ``topolog get``: lists as tables or names, objects as their fields."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from app.cli.get import lists, resources
from app.cli.output import formats, tables

_NAMES = ("namespace", "domain", "key", "kind", "name", "op", "pod", "policy", "state")
"""Fields that identify a row or show its state, in this order."""
_SECONDS = ("age", "seconds")
"""Fields that are durations; a negative one is that of something that never happened."""


@dataclass
class Rows:
    """Prints items of a kind in parts, by the format: rows of one table, names, or documents."""

    kind: str
    output: str
    documents: formats.Stream
    """Writes what a format of documents shows."""
    heading: bool = True
    name: str = ""
    """The name of the one item, if it was asked by name: the API shows more of it than of those in a list."""
    _table: tables.Table | None = field(default=None, init=False)
    _fields: list[str] = field(default_factory=list, init=False)
    """The fields of a wide table, those of its first rows."""

    def show(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Print the items; one document for each."""
        if formats.is_document(self.output):
            self.documents.show(items)
        elif self.output == formats.NAME:
            kind = resources.RESOURCES[self.kind]
            for item in items:
                click.echo(f"{self.kind}/{self.name or resources.named(kind, item)}")
        elif self.name:
            for item in items:
                show_one(item, self.kind, heading=self.heading)
        elif items:
            columns = self._columns(items)
            rows = [[tables.pick(item, path) for path in columns.values()] for item in items]
            self._write(list(columns), rows)

    def _columns(self, items: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        columns = dict(resources.RESOURCES[self.kind].columns)
        if self.output != formats.WIDE:
            return columns
        if not self._fields:
            self._fields = list(dict.fromkeys(name for item in items for name in item))
        shown = {part for path in columns.values() for part in tables.parts(path)}
        further = {tables.heading(name): name for name in self._fields if name not in shown}
        # A field of which the table shows a part may have the heading of that part.
        return columns | {head: name for head, name in further.items() if head not in columns}

    def _write(self, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        if self._table is None:
            whole = self.output == formats.WIDE
            self._table = tables.Table(headings, heading=self.heading, whole=whole, wide=True)
        self._table.write(rows)


def show_list(rows: Rows, reply: Mapping[str, Any]) -> None:
    """Print a list, and on standard error what is missing of it."""
    rows.show(reply["items"])
    metadata = reply.get("metadata", {})
    if not reply["items"] and rows.output != formats.NAME:
        early = str(metadata.get("position")).endswith("/0")
        click.echo(f"nothing found{': this is before the first event of the log' * early}", err=True)
    note_left(reply)


def note_left(reply: Mapping[str, Any]) -> None:
    """Write to standard error how many items of a list are missing, if any are."""
    left = lists.left(reply)
    if left != 0:
        click.echo(f"... and {left or 'maybe'} more (--limit)", err=True)


def show_one(reply: Mapping[str, Any], kind: str, *, heading: bool = True) -> None:
    """Print one object: its fields as lines, those of its list first; lists of objects as tables."""
    resource = resources.RESOURCES[kind]
    nested = {key: value for key, value in reply.items() if _is_table(value)}
    listed = [part.partition(".")[0] for path in resource.columns.values() for part in tables.parts(path)]
    plain = sorted(
        (key for key in reply if key not in nested),
        key=lambda key: listed.index(key) if key in listed else len(listed),
    )
    fields = [
        (f"{name} ({resource.units[name]})" if name in resource.units else name, _value(name, value))
        for key in plain
        for name, value in _leaves(key, reply[key])
    ]
    tables.show(["FIELD", "VALUE"], fields, heading=heading)
    for key, items in nested.items():
        click.echo(f"\n{key}:")
        found = dict.fromkeys(name for item in items for name in item)
        # The fields that identify a row come first.
        names = sorted(found, key=lambda name: _NAMES.index(name) if name in _NAMES else len(_NAMES))
        rows = [[item.get(name) for name in names] for item in items]
        tables.show([tables.heading(name) for name in names], rows, heading=heading)


def _leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The fields of an object of objects with their paths, ``node.spec.taints``; another value as it is."""
    if isinstance(value, Mapping) and any(isinstance(one, Mapping | list) for one in value.values()):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}", inner)
    else:
        yield name, value


def _value(key: str, value: object) -> object:
    """The value of a field, with its unit if it is a duration."""
    if key not in _SECONDS or not isinstance(value, int | float):
        return value
    return tables.duration(value) if value >= 0 else None


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
