"""Finds where to start a replay: the newest usable checkpoint that is not after an offset.

A checkpoint is usable if the log continues it: the entry at its offset has the time in its header. A
checkpoint that is damaged, or belongs to a lost history, is skipped for the next older one, and at last
for the empty snapshot.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from app import telemetry
from app.domain import snapshots
from app.store import errors, snapshot_format
from app.store.checkpoints import archives, checkpoints
from app.store.log import logs

T = TypeVar("T")


class RecoveryPoint(NamedTuple):
    """A snapshot to continue from."""

    snapshot: snapshots.Snapshot
    at_ms: int | None
    """When its last event was appended; None for the empty snapshot."""


class _Candidate(NamedTuple):
    offset: int
    header: Callable[[], snapshot_format.Header]
    load: Callable[[snapshot_format.Header], snapshots.Snapshot]


class RecoveryPoints:
    """The checkpoints of one log, in the store and in the archive; thread-safe."""

    def __init__(
        self, log: logs.Log, kept: checkpoints.Checkpoints, archive: archives.Archive | None = None
    ) -> None:
        self._log = log
        self._kept = kept
        self._archive = archive

    def newest(self, *, indexed: frozenset[str]) -> RecoveryPoint:
        """The newest checkpoint that the log continues; raises StoreAway."""
        for candidate in self._candidates(indexed):
            header = _read(candidate.header)
            if header is not None and self.follows(header):
                found = _loaded(candidate, header)
                if found is not None:
                    return found
        return self._empty(indexed)

    def not_after(
        self, offset: int, *, indexed: frozenset[str], better_than: int | None = None
    ) -> RecoveryPoint | None:
        """The newest at or before the offset; None if no checkpoint is worth reading.

        ``better_than``: the offset of an available snapshot. A checkpoint is read only if it saves more
        events than it has items, because an event and an item take equally long, or if the log continues it
        and not that snapshot.
        """
        continued = self._log.oldest() - 1
        for candidate in self._candidates(indexed, until=offset, better_than=better_than):
            header = _read(candidate.header)
            if header is None:
                continue
            needed = better_than is None or better_than < continued <= header.offset
            if not needed and header.offset - (better_than or 0) <= header.items:
                return None
            if self._belongs(header):
                found = _loaded(candidate, header)
                if found is not None:
                    return found
        return self._empty(indexed) if better_than is None else None

    def oldest(self, since: int = 0, *, archived: bool = True) -> int | None:
        """``since``, or the first offset behind it whose snapshot can be restored; None without a checkpoint.

        Raises ArchiveAway: the archive is asked about what log and store do not cover, unless not
        ``archived``.
        """
        reached = self._log.oldest()
        if reached <= 1:
            return max(0, since)
        offsets = [header.offset for header in self._kept.headers()]
        found = _first(offsets, reached - 1)
        if archived and self._archive is not None and (found is None or found > since):
            oldest, checkpoints = self._archive.bounds()
            found = _first([*offsets, *checkpoints], min(oldest or reached, reached) - 1)
        return None if found is None else max(found, since)

    def follows(self, header: snapshot_format.Header) -> bool:
        """Whether the log still has the entry at which the checkpoint was made; raises StoreAway."""
        try:
            self._log.prove(header.offset, header.at_ms)
        except (errors.Rewound, errors.Trimmed, errors.Gap) as problem:
            telemetry.log.warning("skipping checkpoint", offset=header.offset, reason=type(problem).__name__)
            return False
        return True

    def _candidates(
        self, indexed: frozenset[str], *, until: int | None = None, better_than: int | None = None
    ) -> Iterator[_Candidate]:
        """Those at or before ``until``: those of the store that the log continues, then all others.

        The newest first; a stored one before its archived copy. The archive, which may be slow to answer, is
        listed only if the log lacks the events behind the others, and behind the snapshot at ``better_than``.
        """
        continued = self._log.oldest() - 1
        stored = [one for one in self._in_store(indexed) if until is None or one.offset <= until]
        yield from _newest_first(one for one in stored if one.offset >= continued)
        if continued > (better_than or 0):
            others = [one for one in self._archived(indexed) if until is None or one.offset <= until]
            yield from _newest_first([*(one for one in stored if one.offset < continued), *others])

    def _in_store(self, indexed: frozenset[str]) -> Iterator[_Candidate]:
        kept, incarnation = self._kept, self._log.incarnation

        def load(header: snapshot_format.Header) -> snapshots.Snapshot:
            return kept.read(header, incarnation=incarnation, indexed=indexed)

        for header in kept.headers():
            yield _Candidate(header.offset, functools.partial(_same, header), load)

    def _archived(self, indexed: frozenset[str]) -> Iterator[_Candidate]:
        archive, incarnation = self._archive, self._log.incarnation
        if archive is None:
            return

        def load(header: snapshot_format.Header) -> snapshots.Snapshot:
            return archive.checkpoint(
                header, schema=self._kept.schema, incarnation=incarnation, indexed=indexed
            )

        try:
            files = archive.history("checkpoint")
        except errors.ArchiveAway as problem:
            # A missing volume must not prevent following the log.
            telemetry.log.warning("the archive cannot be read", error=str(problem))
            return
        for file in files:
            yield _Candidate(file.last, functools.partial(archive.image_header, file), load)

    def _belongs(self, header: snapshot_format.Header) -> bool:
        """Whether it belongs to this history; the log may have been trimmed beyond it."""
        if header.offset < self._log.oldest():
            # Archive.history only lists this history; in the store only the present one is trimmed.
            return True
        return self.follows(header)

    def _empty(self, indexed: frozenset[str]) -> RecoveryPoint:
        return RecoveryPoint(
            snapshots.empty(schema=self._kept.schema, indexed=indexed, incarnation=self._log.incarnation),
            None,
        )


def _first(offsets: Iterable[int], least: int) -> int | None:
    """The first of the offsets that is not below ``least``; 0, the empty snapshot, if that may be it."""
    return 0 if least <= 0 else min((offset for offset in offsets if offset >= least), default=None)


def _newest_first(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    return sorted(candidates, key=lambda one: -one.offset)


def _same(header: snapshot_format.Header) -> snapshot_format.Header:
    return header


def _loaded(candidate: _Candidate, header: snapshot_format.Header) -> RecoveryPoint | None:
    snapshot = _read(lambda: candidate.load(header))
    return None if snapshot is None else RecoveryPoint(snapshot, header.at_ms)


def _read(part: Callable[[], T]) -> T | None:
    """A part of a checkpoint; None, and a line in the log, if it is damaged or cannot be reached."""
    try:
        return part()
    except errors.ArchiveAway as away:
        telemetry.log.warning("the archive cannot be read", error=str(away))
    except errors.Damaged as damaged:
        telemetry.log.error("skipping damaged checkpoint", error=str(damaged))
    return None
