"""Where to begin to read: the newest usable checkpoint that is not after an offset.

A checkpoint is usable if the log still follows on it: the entry at its offset was appended when the
checkpoint says. One that is damaged, or belongs to a history that was lost, is passed over for the
next older one, and in the end for the empty snapshot.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from app import telemetry
from app.domain import snapshots
from app.store import archives, checkpoints, errors, images, logs


class Beginning(NamedTuple):
    """A snapshot to go on from."""

    snapshot: snapshots.Snapshot
    at_ms: int | None
    """When its last event was appended; None for the empty one."""


class _Candidate(NamedTuple):
    offset: int
    header: Callable[[], images.Header]
    load: Callable[[images.Header], snapshots.Snapshot]


class Beginnings:
    """The checkpoints of one log, in the store and in the archive; thread-safe."""

    def __init__(
        self, log: logs.Log, kept: checkpoints.Checkpoints, archive: archives.Archive | None = None
    ) -> None:
        self._log = log
        self._kept = kept
        self._archive = archive

    def newest(self, *, indexed: frozenset[str]) -> Beginning:
        """The newest that the log itself goes on from; raises StoreAway."""
        for candidate in self._candidates(None, indexed):
            header = _known(candidate)
            if header is not None and self.follows(header):
                found = _loaded(candidate, header)
                if found is not None:
                    return found
        return self._empty(indexed)

    def not_after(
        self, offset: int, *, indexed: frozenset[str], better_than: int | None = None
    ) -> Beginning | None:
        """The newest at or before the offset; None if none is worth reading.

        ``better_than``: the offset of a snapshot at hand. A checkpoint is read only if that saves more
        events than it holds items: either takes as long.
        """
        for candidate in self._candidates(offset, indexed):
            header = _known(candidate)
            if header is None:
                continue
            if better_than is not None and header.offset - better_than <= header.items:
                return None
            if self._belongs(header):
                found = _loaded(candidate, header)
                if found is not None:
                    return found
        return self._empty(indexed) if better_than is None else None

    def oldest(self) -> int | None:
        """The oldest offset whose snapshot can be had; None if there is no checkpoint."""
        reached = self._log.oldest()
        if self._archive is not None and (archived := self._archive.oldest()):
            reached = min(archived, reached or archived)
        if reached <= 1:
            return 0
        offsets = [one.offset for one in self._candidates(None, frozenset())]
        return min((offset for offset in offsets if offset >= reached - 1), default=None)

    def follows(self, header: images.Header) -> bool:
        """Whether the log goes on from the very entry at which it was made; raises StoreAway."""
        try:
            self._log.prove(header.offset, header.at_ms)
        except (errors.Rewound, errors.Trimmed, errors.Gap) as problem:
            telemetry.log.warning(
                "a checkpoint is passed over", offset=header.offset, reason=type(problem).__name__
            )
            return False
        return True

    def _candidates(self, offset: int | None, indexed: frozenset[str]) -> Iterator[_Candidate]:
        """Those in the store and those in the archive, the newest first; the store's before its copy."""
        found = [*self._in_store(indexed), *self._archived(indexed)]
        usable = [one for one in found if offset is None or one.offset <= offset]
        return iter(sorted(usable, key=lambda one: -one.offset))

    def _in_store(self, indexed: frozenset[str]) -> Iterator[_Candidate]:
        kept, incarnation = self._kept, self._log.incarnation

        def load(header: images.Header) -> snapshots.Snapshot:
            return kept.read(header, incarnation=incarnation, indexed=indexed)

        for header in kept.headers():
            yield _Candidate(header.offset, functools.partial(_same, header), load)

    def _archived(self, indexed: frozenset[str]) -> Iterator[_Candidate]:
        archive, incarnation = self._archive, self._log.incarnation
        if archive is None:
            return

        def load(header: images.Header) -> snapshots.Snapshot:
            return archive.checkpoint(header, incarnation=incarnation, indexed=indexed)

        try:
            files = archive.history("checkpoint")
        except OSError as problem:
            # A volume that is not there must not keep anybody from following the log.
            telemetry.log.warning("the archive cannot be read", error=str(problem))
            return
        for file in files:
            yield _Candidate(file.last, functools.partial(archive.image_header, file), load)

    def _belongs(self, header: images.Header) -> bool:
        """Whether it is of this history, be it that the log has been trimmed behind it."""
        if header.offset < self._log.oldest():
            # Archive.history has told histories apart; in the store only the present one is trimmed.
            return True
        return self.follows(header)

    def _empty(self, indexed: frozenset[str]) -> Beginning:
        return Beginning(snapshots.empty(indexed=indexed, incarnation=self._log.incarnation), None)


def _same(header: images.Header) -> images.Header:
    return header


def _known(candidate: _Candidate) -> images.Header | None:
    try:
        return candidate.header()
    except errors.Damaged as damaged:
        telemetry.log.error("a checkpoint is damaged and passed over", error=str(damaged))
        return None


def _loaded(candidate: _Candidate, header: images.Header) -> Beginning | None:
    try:
        return Beginning(candidate.load(header), header.at_ms)
    except errors.Damaged as damaged:
        telemetry.log.error("a checkpoint is damaged and passed over", error=str(damaged))
        return None
