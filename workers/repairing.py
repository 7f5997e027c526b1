"""What is done about differences: an event that says so, never an edit.

Counts and versions are views of the log: an event brings them back to it, in the one call that writes
both. The call depends on the log alone, never on a view, which may be what is damaged: it must follow
directly on what was read, and nothing that was read since the comparison may be a repair. So two auditors
do not repair twice. Facts are the recorder's: it is asked to list a kind anew, and what is missing or wrong
comes into the log as any other fact, under its epoch.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from app.domain import consistency, events, projecting, snapshots
from app.store import errors, logs

T = TypeVar("T")

VIEWS = "store:views"
MOST = 1000
"""Counts, or versions, that one event repairs."""
_TRIES = 100
"""Attempts at one event while others append; each takes two round trips."""
_NAMED = 100


@dataclass
class _At:
    """How far the log was read when a repair is appended."""

    offset: int
    touched: set[str] = field(default_factory=set)
    """Subjects of the events that came after the comparison."""


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
        board: consistency.Board,
    ) -> list[consistency.Repair]:
        """Bring counts and versions back to the log; what they were apart is as of the snapshot.

        ``versions``: subjects whose stored version is wrong. Whatever a concurrent repair leaves to be done
        is left for the next comparison. Raises StoreAway or Rewound.
        """
        reason = next((one.blame for one in board.of("count", "version")), "")
        increments = [(key, -by) for key, by in sorted(counts.items()) if by]
        made: dict[str, consistency.Repair] = {}
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
    ) -> list[consistency.Repair] | None:
        """Append one event; None if somebody else has repaired, or appends too fast."""
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
            guard = logs.Guard(incarnation=snapshot.position.incarnation, head=at.offset)
            appended = self._append(logs.Batch(events=(event,), increments=increments), guard)
            if appended is not None:
                at.offset = appended.last
                return [
                    consistency.Repair(appended.first, appended.at_ms, what, tuple(keys)[:_NAMED], reason)
                    for what, keys in (("counts", increments), ("versions", left))
                    if keys
                ]
            entries = self._log.read(at.offset)
            if any(isinstance(entry.event, events.ViewsRepaired) for entry in entries):
                return None
            # What has moved since has the version of its own event, which is right.
            at.touched.update(subject for entry in entries for subject in projecting.touched(entry.event))
            at.offset += len(entries)
        return None

    def ask(
        self, snapshot: snapshots.Snapshot, kind: str, keys: tuple[str, ...]
    ) -> consistency.Repair | None:
        """Ask for a list of the kind; None if somebody else has. Raises StoreAway or Rewound."""
        reason = f"{len(keys)} of them are not as the API server shows them"
        event = events.RelistRequested(kind=kind, reason=reason, by=self._identity)
        guard = logs.Guard(
            incarnation=snapshot.position.incarnation,
            versions={event.subject: snapshot.version(event.subject)},
        )
        appended = self._append(logs.Batch(events=(event,)), guard)
        if appended is None:
            return None
        return consistency.Repair(appended.first, appended.at_ms, kind, keys[:_NAMED], reason)

    def _append(self, batch: logs.Batch, guard: logs.Guard) -> logs.Appended | None:
        try:
            return self._log.append(batch, guard)
        except errors.Conflict:
            return None


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), MOST):
        yield items[begin : begin + MOST]


def _joined(one: consistency.Repair, more: consistency.Repair) -> consistency.Repair:
    return msgspec.structs.replace(one, keys=(*one.keys, *more.keys)[:_NAMED])
