"""Folding a log for the migrations, which know where it lies but not what its events mean."""

from collections.abc import Iterator, Mapping, Sequence

import redis

from app.domain import counting, projecting, snapshots
from app.store import checkpoints, codecs, errors, keys
from migrations import folds


class Fold:
    """A log as far as it was folded (migrations.folds.Fold)."""

    form = counting.FORM

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self.snapshot = snapshot
        """The cluster there."""

    @property
    def offset(self) -> int:
        """How far that is."""
        return self.snapshot.offset

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts there."""
        return self.snapshot.counts

    def apply(self, payloads: Sequence[bytes]) -> Mapping[str, int]:
        """Fold the events that follow; what each count that changed is now. Raises Unreadable."""
        projection = projecting.Projection(self.snapshot)
        projection.apply_all(list(map(codecs.decode, payloads)))
        self.snapshot = projection.finish()
        return {name: self.snapshot.counts.get(name, 0) for name in projection.increments}


def begin(client: redis.Redis, names: keys.Keys, holds: folds.Holds) -> Fold:
    """The fold up to the newest checkpoint in the store that the log goes on from, else of nothing."""
    return Fold(next(_usable(checkpoints.Checkpoints(client, names), holds), snapshots.empty()))


def _usable(kept: checkpoints.Checkpoints, holds: folds.Holds) -> Iterator[snapshots.Snapshot]:
    for header in kept.headers():
        if holds(header.offset, header.at_ms):
            try:
                yield kept.read(header, incarnation=header.incarnation)
            except errors.Damaged:
                continue
