"""The second schema: counts whose names contain the label that their domain is a value of.

``NS/POLICY|DOMAIN`` becomes ``NS/POLICY|LABEL=DOMAIN``, so a count never changes its meaning. The new
counts are folded from the log, in a hash of their own, while the old ones are in use and appends go
on. Once both are those of the log, one transaction lets meta name the new ones: in it meta's last
offset moves from ``head``, which is not a number from then on, to ``offset``. The functions of schema 1
fail on that before they write, wherever they are still loaded; those of this schema ask for its number.

The new hash expires by itself until it is in use, and the old one from then on: a run that was killed
leaves nothing to clear up, and two at the same time do no harm.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import redis

from migrations import folds, forms

SUBJECT = "counts that name their label"

_ENTRIES, _FIELDS = 1000, 5000
"""Of one command at most."""
_BUILT_SECONDS = 3600
"""How long new counts last that are not in use."""
_KEPT_SECONDS = 86400
"""How long the old counts are kept for inspection."""
_NO_HEAD = "schema 2"


def stages(
    client: redis.Redis, prefix: str, context: folds.StepContext
) -> Sequence[tuple[str, Callable[[], None]]]:
    """Fold, build, compare, swap; a run that was killed begins again with the first."""
    renewal = _Renewal(client, prefix, context)
    return (
        ("fold", renewal.fold),
        ("build", renewal.build),
        ("compare", renewal.compare),
        ("swap", renewal.swap),
    )


class _State(NamedTuple):
    incarnation: bytes | None
    head: bytes | None
    schema: bytes | None
    lost: bytes | None


class _Renewal:
    def __init__(self, client: redis.Redis, prefix: str, context: folds.StepContext) -> None:
        self._client: Any = client  # whose types do not distinguish bytes from text
        self._context = context
        self._log, self._meta, self._old = f"{prefix}log", f"{prefix}meta", f"{prefix}counts"
        self._new = ""
        self._built = ""
        self._incarnation: bytes | None = None
        self._fold: folds.Fold | None = None

    @property
    def _folded(self) -> folds.Fold:
        if self._fold is None:
            raise RuntimeError("the stages are taken in order")
        return self._fold

    def fold(self) -> None:
        """Fold the log up to its head, from the newest checkpoint on."""
        state = self._state()
        self._incarnation = state.incarnation
        self._fold = self._context.begin(self._holds)
        self._new = f"{self._old}:{self._fold.form}"
        self._built = f"{self._new}:{secrets.token_hex(4)}"
        self._read(state)

    def build(self) -> None:
        """Write the new counts, under a name of its own."""
        self._write(self._folded.counts)

    def compare(self) -> None:
        """See that the old counts and the new are those of the log, at one and the same offset."""
        for _ in self._tries():
            self._catch_up()
            pipeline: Any = self._client.pipeline(transaction=True)
            pipeline.hmget(self._meta, _State._fields).hgetall(self._old).hgetall(self._built)
            state, old, new = pipeline.execute()
            if int(self._checked(state).head or 0) == self._folded.offset:
                counts, form = self._folded.counts, self._folded.form
                self._agree("the counts in use", _numbers(old), forms.counts_in(1, counts, form))
                self._agree("the new counts", _numbers(new), dict(counts))
                return

    def swap(self) -> None:
        """Let meta name the new counts, unless anything was appended since they were brought up to date."""
        for _ in self._tries():
            self._catch_up()
            pipeline: Any = self._client.pipeline(transaction=True)
            with pipeline:
                # Every append changes meta: then the transaction does not happen.
                pipeline.watch(self._meta, self._built)
                state = self._checked(pipeline.hmget(self._meta, _State._fields))
                if int(state.head or 0) != self._folded.offset:
                    continue
                if bool(self._folded.counts) != bool(pipeline.exists(self._built)):
                    raise folds.MigrationRefused(
                        "the new counts are gone: building them took too long; run it again"
                    )
                pipeline.multi()
                pipeline.unlink(self._new)
                if self._folded.counts:
                    pipeline.rename(self._built, self._new)
                    pipeline.persist(self._new)
                pipeline.expire(self._old, _KEPT_SECONDS)
                pipeline.hset(self._meta, mapping=self._meta_fields())
                try:
                    pipeline.execute()
                except redis.WatchError:
                    continue
                return

    def _meta_fields(self) -> dict[str, str]:
        offset = str(self._folded.offset)
        return {"schema": "2", "counts": self._new, "offset": offset, "head": _NO_HEAD}

    # -- reading the log ---------------------------------------------------------------------

    def _state(self) -> _State:
        return self._checked(self._client.hmget(self._meta, _State._fields))

    def _checked(self, reply: Iterable[bytes | None]) -> _State:
        state = _State(*reply)
        if state.schema != b"1":
            raise folds.MigrationRefused(
                "another run has changed the schema meanwhile: see `topolog migrate status`"
            )
        if self._incarnation not in (None, state.incarnation):
            raise folds.MigrationRefused("another incarnation of the log began meanwhile: run it again")
        if state.lost is not None:
            raise folds.MigrationRefused(
                "the store has lost events: let a recorder of the version that wrote it begin another"
                " incarnation"
            )
        return state

    def _holds(self, offset: int, at_ms: int) -> bool:
        entries = self._client.xrange(self._log, f"{offset}-0", f"{offset}-0")
        return any(fields[b"t"] == b"%d" % at_ms for _, fields in entries)

    def _read(self, state: _State) -> Mapping[str, int]:
        """Fold up to the head; what each count that changed is now."""
        fold, head = self._folded, int(state.head or 0)
        if head < fold.offset:
            raise folds.MigrationRefused(
                f"the log ended at {fold.offset} and ends at {head} now: events were lost"
            )
        changed: dict[str, int] = {}
        while fold.offset < head:
            after, until = fold.offset, min(head, fold.offset + _ENTRIES)
            entries = self._client.xrange(self._log, f"{after + 1}-0", f"{until}-0")
            found = [identity for identity, _ in entries]
            if found != [b"%d-0" % offset for offset in range(after + 1, until + 1)]:
                raise folds.MigrationRefused(
                    f"the log does not go on from offset {after}: an entry or a checkpoint is missing"
                )
            changed.update(fold.apply([fields[b"e"] for _, fields in entries]))
        return changed

    def _catch_up(self) -> None:
        changed = self._read(self._state())
        self._write({name: count for name, count in changed.items() if count})
        gone = [name for name, count in changed.items() if not count]
        if gone:
            self._client.hdel(self._built, *gone)

    def _tries(self) -> Iterator[None]:
        deadline = time.monotonic() + self._context.patience
        while True:
            yield
            if time.monotonic() > deadline:
                raise folds.MigrationRefused(
                    "the log never paused for as long as two round trips; nothing was changed: try again at a"
                    " quieter time"
                )

    # -- the new counts ----------------------------------------------------------------------

    def _write(self, counts: Mapping[str, int]) -> None:
        names = list(counts)
        for start in range(0, len(names), _FIELDS):
            part = {name: counts[name] for name in names[start : start + _FIELDS]}
            pipeline: Any = self._client.pipeline(transaction=True)
            pipeline.hset(self._built, mapping=part)
            pipeline.expire(self._built, _BUILT_SECONDS)
            pipeline.execute()

    def _agree(self, what: str, found: Mapping[str, int], folded: Mapping[str, int]) -> None:
        wrong = [
            f"{name}: {found.get(name, 0)}, by the log {folded.get(name, 0)}"
            for name in sorted({*found, *folded})
            if found.get(name, 0) != folded.get(name, 0)
        ]
        if wrong:
            raise folds.MigrationRefused(
                f"{what} are not those of the log, so nothing was changed ({len(wrong)} differ: "
                + "; ".join(wrong[:5])
                + "): have them repaired first, by the version that wrote them"
            )


def _numbers(reply: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(count) for name, count in reply.items()}
