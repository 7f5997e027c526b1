"""Walks forward through the log: the snapshots at ascending offsets, for the price of one fold."""

from app.domain import projections, snapshots
from app.store.log import codecs
from app.store.state import histories

_READ = 1000
"""Entries read at a time."""


class Walk:
    """The snapshot at one offset after the other; an offset before the last one is folded by itself."""

    def __init__(self, past: histories.Histories) -> None:
        self._histories = past
        self._snapshot: snapshots.Snapshot | None = None

    def to(self, offset: int) -> snapshots.Snapshot:
        """The snapshot at the offset. Raises StoreError."""
        snapshot = self._snapshot
        if snapshot is None or offset < snapshot.offset:
            found = self._histories.at(offset)
            if snapshot is None:
                self._snapshot = found
            return found
        while snapshot.offset < offset:
            entries = self._histories.entries(snapshot.offset + 1, offset, limit=_READ)
            if not entries:
                return self._histories.at(offset)
            with codecs.folding():
                snapshot = projections.project_all(snapshot, [entry.event for entry in entries])
        self._snapshot = snapshot
        return snapshot
