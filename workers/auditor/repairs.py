"""Repairs differences by events, never by edits.

Counts and versions are views of the log: an event corrects them, in the one call that writes both. The call
is guarded by the log alone, never by a view, which may be damaged: it must directly follow the entries that
were read, and none of those since the comparison may be a repair. So two auditors do not repair twice. Facts
are written by the recorder only: it is asked to list a kind again, and appends what is missing or wrong like
any other fact, under its epoch.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from app.domain import event_subjects, events, snapshots
from app.domain.audit import findings
from app.store import errors
from app.store.log import batches, logs

T = TypeVar("T")

MAX_KEYS = 1000
"""Counts, or versions, that one event repairs."""
_TRIES = 100
"""Attempts at one event while others append; each takes two round trips."""
_NAMED = 100


@dataclass
class _At:
    """Offset up to which the log was read when a repair is appended."""

    offset: int
    touched: set[str] = field(default_factory=set)
    """Subjects of the events after the comparison."""


class Repairs:
    """Appends repairs; used by one thread."""

    def __init__(self, log: logs.Log, identity: str) -> None:
        self._log = log
        self._identity = identity

    def views(
        self,
        snapshot: snapshots.Snapshot,
        counts: Mapping[str, int],
        versions: Collection[str],
        board: findings.Board,
    ) -> list[findings.Repair]:
        """Correct counts and versions; the differences are as of the snapshot.

        ``counts``: stored minus folded counts; ``versions``: subjects whose stored version is wrong. After a
        concurrent repair the rest is left to the next comparison. Raises StoreAway or Rewound.
        """
        reason = next((one.blame for one in board.of("count", "version")), "")
        increments = [(key, -by) for key, by in sorted(counts.items()) if by]
        made: dict[str, findings.Repair] = {}
        at = _At(snapshot.offset)
        for counted, wrong in itertools.zip_longest(
            _parts(increments), _parts(sorted(versions)), fillvalue=()
        ):
            repaired = self._repaired(snapshot, dict(counted), wrong, reason, at)
            if repaired is None:
                break
            for one in repaired:
                known = made.get(one.what)
                made[one.what] = one if known is None else _joined(known, one)
        return list(made.values())

    def _repaired(
        self,
        snapshot: snapshots.Snapshot,
        increments: dict[str, int],
        wrong: Iterable[str],
        reason: str,
        at: "_At",
    ) -> list[findings.Repair] | None:
        """Append one event; None if another auditor has repaired, or others append too fast."""
        for _ in range(_TRIES):
            left = [subject for subject in wrong if subject not in at.touched]
            event = events.ViewsRepaired(
                by=self._identity,
                counts=increments,
                moved=tuple(subject for subject in left if snapshot.version(subject)),
                ended=tuple(subject for subject in left if not snapshot.version(subject)),
                reason=reason,
            )
            if not increments and not left:
                return []
            guard = batches.Guard(incarnation=snapshot.position.incarnation, head=at.offset)
            appended = self._append(batches.Batch(events=(event,), increments=increments), guard)
            if appended is not None:
                at.offset = appended.last
                return [
                    findings.Repair(appended.first, appended.at_ms, what, tuple(keys)[:_NAMED], reason)
                    for what, keys in (("counts", increments), ("versions", left))
                    if keys
                ]
            entries = self._log.read(at.offset)
            if any(isinstance(entry.event, events.ViewsRepaired) for entry in entries):
                return None
            # A subject of a later event has the version of that event, which is correct.
            at.touched.update(subject for entry in entries for subject in event_subjects.touched(entry.event))
            at.offset += len(entries)
        return None

    def ask(self, snapshot: snapshots.Snapshot, kind: str, keys: tuple[str, ...]) -> findings.Repair | None:
        """Request a list of the kind; None if another auditor has. Raises StoreAway or Rewound."""
        reason = f"{len(keys)} objects differ from the API server"
        event = events.RelistRequested(kind=kind, reason=reason, by=self._identity)
        guard = batches.Guard(
            incarnation=snapshot.position.incarnation,
            versions={event.subject: snapshot.version(event.subject)},
        )
        appended = self._append(batches.Batch(events=(event,)), guard)
        if appended is None:
            return None
        return findings.Repair(appended.first, appended.at_ms, kind, keys[:_NAMED], reason)

    def _append(self, batch: batches.Batch, guard: batches.Guard) -> batches.Appended | None:
        try:
            return self._log.append(batch, guard)
        except errors.Conflict:
            return None


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), MAX_KEYS):
        yield items[begin : begin + MAX_KEYS]


def _joined(one: findings.Repair, more: findings.Repair) -> findings.Repair:
    return msgspec.structs.replace(one, keys=(*one.keys, *more.keys)[:_NAMED])
