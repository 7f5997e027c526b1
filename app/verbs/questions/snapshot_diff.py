"""Differences between two snapshots: nodes, pods, objects, counts, placements, waiting pods."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from app.domain import model, snapshots
from app.verbs.questions import kinds

T = TypeVar("T")
SECTION_BYTES = 512 * 1024
"""Bytes of JSON after which the rows of a section end, however many there may be: all sections together have
less than an answer may have."""
_encode = msgspec.json.Encoder().encode
SECTIONS = ("nodes", "pods", "objects", "counts", "placements", "pending")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field with both values, as the log records them; None where it has its default value."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Row:
    """One object that differs."""

    name: str
    """node, NAMESPACE/POD, KIND:NAMESPACE/NAME or count."""
    change: str
    """began, ended or changed."""
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """The differences of one kind."""

    began: int
    ended: int
    changed: int
    rows: tuple[Row, ...]
    """The first, by name; see ``SECTION_BYTES``."""

    @property
    def more(self) -> int:
        """How many are not in ``rows``."""
        return self.began + self.ended + self.changed - len(self.rows)


class _Found(NamedTuple):
    """What differs: enough to choose the rows that are shown, and to make them."""

    name: str
    change: str
    before: Mapping[str, object] | model.Frozen | None = None
    after: Mapping[str, object] | model.Frozen | None = None

    def row(self) -> Row:
        return Row(self.name, self.change, tuple(_between(_held(self.before), _held(self.after))))


def compare(
    one: snapshots.Snapshot,
    other: snapshots.Snapshot,
    *,
    only: tuple[str, ...] = SECTIONS,
    limit: int = 100,
    namespace: str = "",
) -> dict[str, Section]:
    """Section -> differences from ``one`` to ``other``; maps that both share are not compared.

    ``namespace``: only what is in it, which no node is.
    """
    return {
        name: _section(_within(namespace, name, _COMPARED[name](one, other), other), limit)
        for name in SECTIONS
        if name in only
    }


def _within(
    namespace: str, section: str, rows: Iterator[_Found], snapshot: snapshots.Snapshot
) -> Iterator[_Found]:
    if not namespace:
        return rows
    if section == "counts":
        return (row for row in rows if snapshot.schema.namespace(row.name) == namespace)
    start = f"{namespace}/"
    return (
        row
        for row in rows
        if (row.name.partition(":")[2] if section == "objects" else row.name).startswith(start)
    )


def _nodes(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[_Found]:
    return _rows(one.nodes, other.nodes, lambda name, _: name, _itself)


def _pods(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[_Found]:
    return _rows(one.pods, other.pods, lambda _, pod: pod.key, _itself)


def _objects(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[_Found]:
    for kind in kinds.names(other):
        before, after = kinds.all_of(one, kind), kinds.all_of(other, kind)
        for row in _rows(before, after, lambda name, _: name, _itself):
            yield row._replace(name=f"{kind}:{row.name}")


def _counts(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[_Found]:
    return _rows(one.counts, other.counts, lambda name, _: name, _count)


def _placements(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[_Found]:
    return _rows(
        one.placements,
        other.placements,
        lambda _, placement: placement.pod.key,
        _place,
    )


def _pending(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[_Found]:
    if one.waiting is other.waiting:
        return
    for before, after, change in ((other, one, "ended"), (one, other, "began")):
        for uid in after.waiting:
            if uid not in before.waiting:
                pod = after.pod(uid)
                yield _Found(pod.key if pod is not None else uid, change)


_COMPARED: Mapping[str, Callable[[snapshots.Snapshot, snapshots.Snapshot], Iterator[_Found]]] = {
    "nodes": _nodes,
    "pods": _pods,
    "objects": _objects,
    "counts": _counts,
    "placements": _placements,
    "pending": _pending,
}


def _rows(
    before: Mapping[str, T],
    after: Mapping[str, T],
    name: Callable[[str, T], str],
    held: Callable[[T], Mapping[str, object] | model.Frozen],
) -> Iterator[_Found]:
    """The entries that differ, in no order."""
    if before is after:
        return
    for key, value in after.items():
        old = before.get(key)
        if old is None:
            yield _Found(name(key, value), "began", None, held(value))
        elif old is not value and old != value:
            yield _Found(name(key, value), "changed", held(old), held(value))
    for key, value in before.items():
        if key not in after:
            yield _Found(name(key, value), "ended", held(value))


def _itself(value: model.Frozen) -> model.Frozen:
    return value


def _count(number: int) -> Mapping[str, object]:
    return {"count": number}


def _place(placement: model.Placement) -> Mapping[str, object]:
    return {"node": placement.node, "at": placement.at}


def _held(value: Mapping[str, object] | model.Frozen | None) -> Mapping[str, object]:
    """The fields of a value, as the log records them."""
    if isinstance(value, model.Frozen):
        fields: dict[str, Any] = msgspec.to_builtins(value)
        return fields
    return value or {}


def _between(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[FieldChange]:
    for field in sorted(before.keys() | after.keys()):
        if before.get(field) != after.get(field):
            yield FieldChange(field, before.get(field), after.get(field))


def _section(found: Iterator[_Found], limit: int) -> Section:
    """The numbers of all that differs, and the rows of the first: no more than those are held."""
    numbers: Counter[str] = Counter()

    def counted() -> Iterator[_Found]:
        for one in found:
            numbers[one.change] += 1
            yield one

    first = heapq.nsmallest(limit, counted(), key=lambda one: (one.name, one.change))
    rows: list[Row] = []
    size = 0
    for one in first:
        rows.append(one.row())
        size += len(_encode(rows[-1]))
        if size >= SECTION_BYTES:
            break
    return Section(numbers["began"], numbers["ended"], numbers["changed"], tuple(rows))
