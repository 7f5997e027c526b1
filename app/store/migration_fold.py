"""Log replay for the migrations, which name keys but no event types."""

from collections.abc import Iterator, Mapping, Sequence

import redis

from app.domain import projections, snapshots
from app.domain import schema as schemas
from app.store import errors, keys
from app.store.checkpoints import checkpoints
from app.store.log import codecs
from migrations import folds


class Fold:
    """The state of a log at one offset (migrations.folds.Fold)."""

    form = int(schemas.FIRST_FORMS)

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self.snapshot = snapshot
        """The cluster at the offset."""

    @property
    def offset(self) -> int:
        """The offset reached."""
        return self.snapshot.offset

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts at the offset."""
        return self.snapshot.counts

    def apply(self, payloads: Sequence[bytes]) -> Mapping[str, int]:
        """Apply the events that follow; returns the new value of each changed count. Raises Unreadable."""
        projection = projections.Projection(self.snapshot)
        with codecs.folding():
            projection.apply_all(list(map(codecs.decode, payloads)))
        self.snapshot = projection.finish()
        return {name: self.snapshot.counts.get(name, 0) for name in projection.increments}


def begin(client: redis.Redis, names: keys.Keys, schema: schemas.Schema, holds: folds.Holds) -> Fold:
    """The state at the newest checkpoint that the log continues, else the empty state."""
    kept = checkpoints.Checkpoints(client, names, schema)
    return Fold(next(_usable(kept, holds), snapshots.empty(schema=schema)))


def _usable(kept: checkpoints.Checkpoints, holds: folds.Holds) -> Iterator[snapshots.Snapshot]:
    for header in kept.headers():
        if holds(header.offset, header.at_ms):
            try:
                yield kept.read(header, incarnation=header.incarnation)
            except errors.Damaged:
                continue
