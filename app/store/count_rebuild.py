"""Builds the counts in their present form beside the live ones (decision 5).

A plugin's counter has a form, and a store's counts have the forms of all counters in their name. If they are
not those of the present schema, the log is folded from the newest checkpoint into a hash of its own, up to
the head. Then one transaction, which any append aborts, lets meta name the new counts; writers that keep
other counts are rejected from then on. A run that was killed leaves only a key that expires.
"""

import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

import redis

from app import telemetry
from app.domain import schema as schemas
from app.store import keys, migration_fold
from app.store.server import connections
from migrations import folds

_ENTRIES, _FIELDS = 1000, 5000
"""Of one command at most."""
_BUILT_SECONDS = 3600
"""Lifetime of new counts that are not in use."""
_KEPT_SECONDS = 86400
"""How long the former counts are kept."""
_PAUSE_SECONDS = 0.01


def rebuild(client: redis.Redis, names: keys.Keys, schema: schemas.Schema, *, patience: float) -> None:
    """Let the store keep the counts of the schema; nothing happens if it does. Raises Refused.

    ``patience``: seconds within which a busy log must pause for two round trips.
    """
    live = client.hget(names.meta, "counts")
    if live is None or connections.text(live) == names.counts:
        return
    former = connections.text(live)
    counted = client.exists(names.log)
    _Rebuild(client, names, schema, former, patience).run()
    if counted:
        telemetry.log.info("counts were built in another form", former=former, live=names.counts)


class _Rebuild:
    def __init__(
        self, client: redis.Redis, names: keys.Keys, schema: schemas.Schema, former: str, patience: float
    ) -> None:
        self._client: Any = client
        self._names = names
        self._former = former
        self._patience = patience
        self._built = f"{names.counts}:{secrets.token_hex(4)}"
        self._state = self._read_state()
        self._fold = migration_fold.begin(client, names, schema, self._holds)

    def run(self) -> None:
        self._follow()
        self._write(self._fold.counts)
        for _ in self._attempts():
            changed = self._follow()
            self._write({name: count for name, count in changed.items() if count})
            if gone := [name for name, count in changed.items() if not count]:
                self._client.hdel(self._built, *gone)
            if self._swapped():
                return

    def _swapped(self) -> bool:
        """Let meta name the new counts; false if anything was appended meanwhile."""
        names, counts = self._names, self._fold.counts
        pipeline: Any = self._client.pipeline(transaction=True)
        with pipeline:
            # Every append changes meta: then the transaction does not happen.
            pipeline.watch(names.meta, self._built)
            if int(self._checked(pipeline.hmget(names.meta, *_FIELDS_READ))[1] or 0) != self._fold.offset:
                return False
            stored = {
                connections.text(key): int(value) for key, value in pipeline.hgetall(self._built).items()
            }
            if stored != dict(counts):
                raise folds.MigrationRefused(
                    "the new counts were removed or changed while they were built: run it again"
                )
            pipeline.multi()
            pipeline.unlink(names.counts)
            if counts:
                pipeline.rename(self._built, names.counts)
                pipeline.persist(names.counts)
            pipeline.expire(self._former, _KEPT_SECONDS)
            pipeline.hset(names.meta, "counts", names.counts)
            try:
                pipeline.execute()
            except redis.WatchError:
                return False
        return True

    # -- reading the log -------------------------------------------------------------------

    def _read_state(self) -> tuple[bytes | None, ...]:
        return tuple(self._client.hmget(self._names.meta, *_FIELDS_READ))

    def _checked(self, state: list[bytes | None]) -> tuple[bytes | None, ...]:
        found = tuple(state)
        if (found[0], found[2]) != (self._state[0], self._state[2]):
            raise folds.MigrationRefused(
                "another incarnation began, or other counts were built meanwhile: run it again"
            )
        if found[3] is not None:
            raise folds.MigrationRefused(
                "the store has lost events: let a recorder begin another incarnation first"
            )
        return found

    def _holds(self, offset: int, at_ms: int) -> bool:
        entries = self._client.xrange(self._names.log, f"{offset}-0", f"{offset}-0")
        return any(fields[b"t"] == b"%d" % at_ms for _, fields in entries)

    def _follow(self) -> Mapping[str, int]:
        """Fold up to the head; the present value of each count that changed."""
        fold, head = self._fold, int(self._checked(list(self._read_state()))[1] or 0)
        changed: dict[str, int] = {}
        while fold.offset < head:
            after, until = fold.offset, min(head, fold.offset + _ENTRIES)
            entries = self._client.xrange(self._names.log, f"{after + 1}-0", f"{until}-0")
            if [identity for identity, _ in entries] != [
                b"%d-0" % one for one in range(after + 1, until + 1)
            ]:
                raise folds.MigrationRefused(
                    f"the log does not continue from offset {after}: an entry or a checkpoint is missing"
                )
            changed.update(fold.apply([fields[b"e"] for _, fields in entries]))
        return changed

    def _attempts(self) -> Iterator[None]:
        deadline = time.monotonic() + self._patience
        while True:
            yield
            if time.monotonic() > deadline:
                raise folds.MigrationRefused(
                    "the log never paused for two round trips; nothing was changed: try again later"
                )
            time.sleep(_PAUSE_SECONDS)

    def _write(self, counts: Mapping[str, int]) -> None:
        fields = list(counts)
        for start in range(0, len(fields), _FIELDS):
            pipeline: Any = self._client.pipeline(transaction=True)
            pipeline.hset(
                self._built, mapping={name: counts[name] for name in fields[start : start + _FIELDS]}
            )
            pipeline.expire(self._built, _BUILT_SECONDS)
            pipeline.execute()


_FIELDS_READ = ("incarnation", keys.HEAD, "counts", "lost")
