"""Walks forward through the log: the snapshots at ascending offsets, for the price of one fold."""

from app.domain import projections, snapshots
from app.store.log import codecs
from app.store.state import fold_limit, histories

_READ = 1000
"""Entries read at a time."""


class Walk:
    """The snapshot at one offset after the other; an offset before the last one is folded by itself."""

    def __init__(
        self, past: histories.Histories, attended: fold_limit.Check = fold_limit.always_attended
    ) -> None:
        """``attended`` raises an exception once the snapshots are not waited for."""
        self._histories = past
        self._attended = attended
        self._snapshot: snapshots.Snapshot | None = None

    def to(self, offset: int) -> snapshots.Snapshot:
        """The snapshot at the offset. Raises StoreError, and what the check raises."""
        snapshot = self._snapshot
        if snapshot is None or offset < snapshot.offset:
            found = self._histories.at(offset, attended=self._attended)
            if snapshot is None:
                self._snapshot = found
            return found
        while snapshot.offset < offset:
            self._attended()
            entries = self._histories.entries(snapshot.offset + 1, offset, limit=_READ)
            if not entries:
                return self._histories.at(offset, attended=self._attended)
            with codecs.folding():
                snapshot = projections.project_all(snapshot, [entry.event for entry in entries])
        self._snapshot = snapshot
        return snapshot
