"""Step charts: the values of numbers after each event, thinned so that no extreme disappears."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.domain import event_subjects, events, model, snapshots
from app.framework import views
from app.verbs.pictures import figures, in_flight

Numbers = Callable[[snapshots.Snapshot], Mapping[str, int]]
"""snapshot -> line -> value; a line that is absent has no value at that moment."""
Changed = Callable[[snapshots.Snapshot, snapshots.Snapshot, events.AnyEvent], bool]
"""(snapshot, the one after the event, event) -> whether numbers may differ."""


class Mark(NamedTuple):
    """A change of the object that a chart is about."""

    offset: int
    at_ms: int
    change: str
    """``PodGroup changed``."""


class Point(NamedTuple):
    """The value of a line from one event on."""

    offset: int
    at_ms: int
    value: int | None


NUMBERS: Mapping[str, Numbers] = {
    "waiting": lambda snapshot: {"waiting": len(snapshot.waiting)},
    "inFlight": lambda snapshot: {"in flight": len(snapshot.placements)},
    "pods": lambda snapshot: {"pods": len(snapshot.pods)},
    "nodes": lambda snapshot: {"nodes": len(snapshot.nodes)},
}
"""Numbers that are read without a count."""


def _counts_changed(one: snapshots.Snapshot, other: snapshots.Snapshot, _: events.AnyEvent) -> bool:
    """Whether a count may differ: the fold keeps the maps that an event does not change."""
    return (
        len(one.waiting) != len(other.waiting)
        or len(one.placements) != len(other.placements)
        or len(one.pods) != len(other.pods)
        or one.nodes is not other.nodes
        or one.residents is not other.residents
        or one.counts is not other.counts
        or one.objects is not other.objects
    )


def _changes(of: views.Followed, name: str) -> Changed:
    """When the numbers of the object may change."""
    by = of.changed_by

    def changed(one: snapshots.Snapshot, other: snapshots.Snapshot, event: events.AnyEvent) -> bool:
        uids = event_subjects.pods_about(event)
        if not uids or by == "counts":
            return _counts_changed(one, other, event)
        if by == "pods":
            return True
        pods = (snapshot.pod(uid) for snapshot in (one, other) for uid in uids)
        return any(name in by(pod) for pod in pods if pod is not None)

    return changed


def quota(of: str, counts: figures.Counts) -> Numbers:
    """For each domain of an object: placed, how many of these are in flight, and desired.

    A domain of which nothing was in flight has no line of it.
    """
    flying = in_flight.InFlight()
    flown: set[str] = set()

    def numbers(snapshot: snapshots.Snapshot) -> Mapping[str, int]:
        found: dict[str, int] = {}
        sums = flying.of(snapshot)
        mine = figures.quotas(snapshot, counts, of)
        # Domains are in the order of their hashes, which differs from process to process.
        for one in sorted(mine, key=lambda each: (each.key, each.value)):
            found[f"{one.key}={one.value} placed"] = one.placed
            if one.count_key in flown or sums.get(one.count_key, 0):
                flown.add(one.count_key)
                found[f"{one.key}={one.value} in flight"] = sums.get(one.count_key, 0)
            if one.desired is not None:
                found[f"{one.key}={one.value} desired"] = one.desired
        return found

    return numbers


class Lines:
    """Collects the steps of all lines, one event after the other."""

    def __init__(self, numbers: Numbers, changed: Changed = _counts_changed) -> None:
        """``changed``: whether an event may have changed a number; by default of those that are counted."""
        self._numbers = numbers
        self._changed = changed
        self._last: snapshots.Snapshot | None = None
        self.points: dict[str, list[Point]] = {}

    def add(self, snapshot: snapshots.Snapshot, at_ms: int, event: events.AnyEvent | None) -> None:
        """The state after the next event; None for the first state."""
        last, self._last = self._last, snapshot
        if last is not None and event is not None and not self._changed(last, snapshot, event):
            return
        found = self._numbers(snapshot)
        for name in (*self.points, *(name for name in found if name not in self.points)):
            line, value = self.points.setdefault(name, []), found.get(name)
            if not line or line[-1].value != value:
                line.append(Point(snapshot.offset, at_ms, value))


def followed(kinds: Iterable[views.Followed], kind: str, name: str) -> Lines | None:
    """The lines of an object of a plugin; None if no plugin follows such objects."""
    found = next((one for one in kinds if one.kind == kind), None)
    if found is None:
        return None
    return Lines(lambda snapshot: found.numbers(snapshot, name), _changes(found, name))


class _Named(NamedTuple):
    """A kind; those of several groups may have one name in manifests."""

    name: str
    manifest: str


class Changes:
    """Collects when the declared objects of one name were added, changed and removed, event by event."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: snapshots.Snapshot | None = None
        self._held: Mapping[_Named, model.DeclaredObject] = {}
        self.marks: list[Mark] = []

    def add(self, snapshot: snapshots.Snapshot, at_ms: int) -> None:
        """The state after the next event."""
        last, self._last = self._last, snapshot
        if last is not None and last.objects is snapshot.objects:
            return
        before, self._held = self._held, dict(self._named(snapshot))
        for kind in sorted({*before, *self._held}) if last is not None else ():
            if before.get(kind) != self._held.get(kind):
                change = "created" if kind not in before else "changed" if kind in self._held else "deleted"
                self.marks.append(Mark(snapshot.offset, at_ms, f"{kind.manifest} {change}"))

    def _named(self, snapshot: snapshots.Snapshot) -> Iterator[tuple[_Named, model.DeclaredObject]]:
        for kind in snapshot.schema.kinds:
            held = snapshot.all(kind)
            if "/" not in self._name:
                found = next((one for one in held.values() if one.name == self._name), None)
            else:
                found = held.get(self._name)
            if found is not None:
                yield _Named(kind.name, kind.manifest), found


def thinned(points: Sequence[Point], first: int, last: int, most: int) -> list[Point]:
    """At most about ``most`` points: of each bucket of offsets the first, last, least and greatest."""
    if len(points) <= most:
        return list(points)
    buckets = max(1, most // 4)
    width = max(1, -(-(last - first + 1) // buckets))
    held: dict[int, list[Point]] = {}
    for point in points:
        held.setdefault((point.offset - first) // width, []).append(point)
    return [point for part in held.values() for point in _extremes(part)]


def _extremes(points: Iterable[Point]) -> list[Point]:
    part = list(points)
    valued = [point for point in part if point.value is not None]
    kept = {part[0], part[-1]}
    if valued:
        kept.add(min(valued, key=lambda point: point.value or 0))
        kept.add(max(valued, key=lambda point: point.value or 0))
    return sorted(kept, key=lambda point: point.offset)
