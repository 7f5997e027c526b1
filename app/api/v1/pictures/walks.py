"""Walks through a window of the log, event by event or from one offset to another."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.api.introspection import heavy, services
from app.domain import events, model, projections, snapshots
from app.store.log import readers
from app.verbs.questions import situations

_READ = 1000


def entries(first: int, last: int) -> Iterator[list[readers.Entry]]:
    """The entries at offsets ``first`` to ``last``, in runs. Raises StoreError and Problem 499."""
    histories, attended = services.current().histories, heavy.attended()
    while first <= last:
        attended()
        found = histories.entries(first, last, limit=_READ)
        if not found:
            return
        yield found
        first = found[-1].offset + 1


def stops(first: int, last: int, number: int) -> list[int]:
    """At most ``number`` offsets from ``first`` to ``last``, both included, evenly spread."""
    if number == 1 or first == last:
        return [last]
    return sorted({first + (last - first) * at // (number - 1) for at in range(number)})


class Stop(NamedTuple):
    """A snapshot on the way through a window."""

    snapshot: snapshots.Snapshot
    at_ms: int
    """When its event was appended; 0 for the first stop, whose event is not read."""
    touched: frozenset[model.NodeName]
    """The nodes that may differ from the stop before; none for the first one."""


def along(offsets: Sequence[int]) -> Iterator[Stop]:
    """The snapshots at ascending offsets, for the price of one fold. Raises StoreError and Problem 499."""
    attended = heavy.attended()
    snapshot = services.current().histories.at(offsets[0], attended=attended)
    yield Stop(snapshot, 0, frozenset())
    run: list[readers.Entry] = []
    runs = entries(offsets[0] + 1, offsets[-1])
    for offset in offsets[1:]:
        attended()
        while not run or run[-1].offset < offset:
            more = next(runs, None)
            if more is None:
                return
            run += more
        count = offset - snapshot.offset
        taken, run = run[:count], run[count:]
        projection = projections.Projection(snapshot)
        situations.advance(projection, [entry.event for entry in taken], attended)
        snapshot = projection.finish()
        yield Stop(snapshot, taken[-1].at_ms, projection.touched)


class Step(NamedTuple):
    """A snapshot, and the event that it is after."""

    snapshot: snapshots.Snapshot
    at_ms: int
    """When the event was appended; 0 for a first step whose event is not kept."""
    event: events.AnyEvent | None
    """None for the first step."""


def steps(first: int, last: int) -> Iterator[Step]:
    """The snapshot at ``first``, and after each event until ``last``.

    Raises StoreError and Problem 499.
    """
    histories = services.current().histories
    snapshot = histories.at(first, attended=heavy.attended())
    yield Step(snapshot, histories.appended_ms(first) or 0 if first else 0, None)
    for run in entries(first + 1, last):
        for entry in run:
            snapshot = projections.project(snapshot, entry.event)
            yield Step(snapshot, entry.at_ms, entry.event)
