"""A snapshot that moves along the log, with the largest value that each of its counts has had."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.domain import events, model, projections, snapshots
from app.store.state import fold_limit
from app.verbs.questions import situations


class Peak(NamedTuple):
    """The largest value of a count, and the first offset at which it was reached."""

    value: int
    offset: int


class _Increments(dict[str, int]):
    """By how much counts changed, and which of them the latest events touched."""

    def __init__(self, touched: set[str]) -> None:
        super().__init__()
        self.touched = touched

    def __setitem__(self, key: str, by: int) -> None:
        super().__setitem__(key, by)
        self.touched.add(key)


class History:
    """One snapshot that moves along, and the peaks of its counts: of its states after all of an offset."""

    def __init__(self, snapshot: snapshots.Snapshot, attended: fold_limit.Check) -> None:
        self.snapshot = snapshot
        self._attended = attended
        self._peaks = {key: Peak(value, snapshot.offset) for key, value in snapshot.counts.items()}
        self.changed: set[str] = set()
        """Counts that changed on the way."""
        self._held: list[tuple[int, events.AnyEvent]] = []
        self._at = snapshot.offset
        """The offset of the latest folded event; others of it may follow."""
        self._touched: set[str] = set()
        """The counts that its events changed, which are not compared with their peaks yet."""

    def add(self, happened: Iterable[events.AnyEvent], offset: int) -> None:
        """Hold what happened at that offset for the next fold."""
        self._held += [(offset, event) for event in happened]

    def fold(self, position: model.Position) -> snapshots.Snapshot:
        """The snapshot after all held events, at that position of the log."""
        if self._held:
            projection = projections.Projection(self.snapshot)
            projection.increments = increments = _Increments(self._touched)
            for number, (offset, event) in enumerate(self._held):
                if number % situations.PIECE == 0:
                    self._attended()
                if offset != self._at:
                    self._raise(increments)
                    self._at = offset
                projection.apply(event)
            self._held = []
            self.snapshot = projection.finish()
            self.changed |= increments.keys()
        if self.snapshot.position != position:
            self.snapshot = dataclasses.replace(self.snapshot, position=position)
        return self.snapshot

    @property
    def peaks(self) -> Mapping[str, Peak]:
        """The largest value of each count."""
        self._raise({})
        return self._peaks

    def _raise(self, increments: Mapping[str, int]) -> None:
        """Compare the counts that changed at the latest offset with their peaks."""
        for key in self._touched:
            value = self.snapshot.counts.get(key, 0) + increments.get(key, 0)
            known = self._peaks.get(key)
            if known is None or value > known.value:
                self._peaks[key] = Peak(value, self._at)
        self._touched.clear()

    def follow(self, other: "History") -> None:
        """Be where the other one is."""
        self.snapshot, self._peaks, self.changed = other.snapshot, other._peaks, other.changed
        self._at, self._touched = other._at, other._touched

    def part(self) -> None:
        """Go on alone."""
        self._peaks, self.changed, self._touched = dict(self._peaks), set(self.changed), set(self._touched)
