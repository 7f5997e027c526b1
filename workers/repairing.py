"""What is done about differences: an event that says so, never an edit.

Counts and versions are views of the log: an event brings them back to it, in the one call that writes
both. Two auditors do not repair twice: each expects the version of the last repair. Facts are the
recorder's: it is asked to list a kind anew, and what is missing or wrong comes into the log as any other
fact, under its epoch.
"""

from collections.abc import Mapping

from app.domain import consistency, events, snapshots
from app.store import errors, logs

VIEWS = "store:views"
MOST = 1000
"""Counts, or versions, that one event repairs."""


class Repairs:
    """Appends repairs; used by one thread."""

    def __init__(self, log: logs.Log, identity: str) -> None:
        self._log = log
        self._identity = identity

    def views(
        self,
        snapshot: snapshots.Snapshot,
        counts: Mapping[str, int],
        versions: Mapping[str, int],
        board: consistency.Board,
    ) -> list[consistency.Repair]:
        """Bring counts and versions back to the log; what they were apart is as of the snapshot.

        ``versions``: subject -> what is stored. Empty if somebody else repaired first, or a subject moved
        meanwhile: then the next look tells. Raises StoreAway or Rewound.
        """
        increments = {key: -by for key, by in sorted(counts.items())[:MOST] if by}
        wrong = sorted(versions)[:MOST]
        if not increments and not wrong:
            return []
        reason = next((one.blame for one in board.of("count", "version")), "")
        event = events.ViewsRepaired(
            by=self._identity,
            counts=increments,
            moved=tuple(subject for subject in wrong if snapshot.version(subject)),
            ended=tuple(subject for subject in wrong if not snapshot.version(subject)),
            reason=reason,
        )
        # A subject that came into being since must not be ended: what is stored of it would have changed.
        guard = logs.Guard(
            incarnation=snapshot.position.incarnation,
            versions={VIEWS: snapshot.version(VIEWS)}
            | {subject: versions[subject] for subject in event.ended},
        )
        appended = self._append(logs.Batch(events=(event,), increments=increments), guard)
        if appended is None:
            return []
        made = [
            consistency.Repair(appended.first, appended.at_ms, what, tuple(sorted(keys))[:100], reason)
            for what, keys in (("counts", tuple(increments)), ("versions", tuple(wrong)))
            if keys
        ]
        return made

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
        return consistency.Repair(appended.first, appended.at_ms, kind, keys[:100], reason)

    def _append(self, batch: logs.Batch, guard: logs.Guard) -> logs.Appended | None:
        try:
            return self._log.append(batch, guard)
        except errors.Conflict:
            return None
