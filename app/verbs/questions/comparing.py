"""What differs between two snapshots: nodes, pods, objects, counts, placements, waiting pods."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from app.domain import model, snapshots
from app.verbs.questions import kinds

T = TypeVar("T")
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
    """The first, by name."""

    @property
    def more(self) -> int:
        """How many are not in ``rows``."""
        return self.began + self.ended + self.changed - len(self.rows)


def compare(
    one: snapshots.Snapshot, other: snapshots.Snapshot, *, only: tuple[str, ...] = SECTIONS, limit: int = 100
) -> dict[str, Section]:
    """Section -> differences from ``one`` to ``other``; maps that both share are not compared."""
    return {name: _section(_COMPARED[name](one, other), limit) for name in SECTIONS if name in only}


def _nodes(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[Row]:
    return _rows(one.nodes, other.nodes, lambda name, _: name, _fields)


def _pods(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[Row]:
    return _rows(one.pods, other.pods, lambda _, pod: pod.key, _fields)


def _objects(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[Row]:
    for kind in kinds.names(other):
        before, after = kinds.all_of(one, kind), kinds.all_of(other, kind)
        for row in _rows(before, after, lambda name, _: name, _fields):
            yield Row(f"{kind}:{row.name}", row.change, row.fields)


def _counts(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[Row]:
    return _rows(one.counts, other.counts, lambda name, _: name, lambda number: {"count": number})


def _placements(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[Row]:
    return _rows(
        one.placements,
        other.placements,
        lambda _, placement: placement.pod.key,
        lambda placement: {"node": placement.node, "at": placement.at},
    )


def _pending(one: snapshots.Snapshot, other: snapshots.Snapshot) -> Iterator[Row]:
    if one.waiting is other.waiting:
        return
    for before, after, change in ((other, one, "ended"), (one, other, "began")):
        for uid in after.waiting:
            if uid not in before.waiting:
                pod = after.pod(uid)
                yield Row(pod.key if pod is not None else uid, change)


_COMPARED: Mapping[str, Callable[[snapshots.Snapshot, snapshots.Snapshot], Iterator[Row]]] = {
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
    held: Callable[[T], Mapping[str, object]],
) -> Iterator[Row]:
    """The entries that differ, in no order."""
    if before is after:
        return
    for key, value in after.items():
        old = before.get(key)
        if old is None:
            yield Row(name(key, value), "began", tuple(_between({}, held(value))))
        elif old is not value and old != value:
            yield Row(name(key, value), "changed", tuple(_between(held(old), held(value))))
    for key, value in before.items():
        if key not in after:
            yield Row(name(key, value), "ended", tuple(_between(held(value), {})))


def _fields(value: model.Frozen) -> Mapping[str, object]:
    fields: dict[str, Any] = msgspec.to_builtins(value)
    return fields


def _between(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[FieldChange]:
    for field in sorted(before.keys() | after.keys()):
        if before.get(field) != after.get(field):
            yield FieldChange(field, before.get(field), after.get(field))


def _section(found: Iterator[Row], limit: int) -> Section:
    rows = sorted(found, key=lambda row: (row.name, row.change))
    numbers = {change: 0 for change in ("began", "ended", "changed")}
    for row in rows:
        numbers[row.change] += 1
    return Section(numbers["began"], numbers["ended"], numbers["changed"], tuple(rows[:limit]))
