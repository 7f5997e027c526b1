"""Walks through a window of the log, event by event or from one offset to another."""

from collections.abc import Iterator, Sequence

from app.api.introspection import services
from app.domain import projecting, snapshots
from app.store.log import readers

_READ = 1000


def entries(first: int, last: int) -> Iterator[list[readers.Entry]]:
    """The entries at offsets ``first`` to ``last``, both included, in runs. Raises StoreError."""
    histories = services.current().histories
    while first <= last:
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


def along(offsets: Sequence[int]) -> Iterator[tuple[snapshots.Snapshot, int]]:
    """The snapshots at ascending offsets, for the price of one fold, each with the time of its event.

    The time of the first one is 0: its event is not read. Raises StoreError.
    """
    snapshot = services.current().histories.at(offsets[0])
    yield snapshot, 0
    run: list[readers.Entry] = []
    runs = entries(offsets[0] + 1, offsets[-1])
    for offset in offsets[1:]:
        while not run or run[-1].offset < offset:
            more = next(runs, None)
            if more is None:
                return
            run += more
        count = offset - snapshot.offset
        taken, run = run[:count], run[count:]
        snapshot = projecting.project_all(snapshot, [entry.event for entry in taken])
        yield snapshot, taken[-1].at_ms


def steps(first: int, last: int) -> Iterator[tuple[snapshots.Snapshot, int]]:
    """The snapshot at ``first``, and after each event until ``last``, each with the time of its event."""
    snapshot = services.current().histories.at(first)
    yield snapshot, 0
    for run in entries(first + 1, last):
        for entry in run:
            snapshot = projecting.project(snapshot, entry.event)
            yield snapshot, entry.at_ms
