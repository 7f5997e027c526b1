"""The compactor: it keeps the log short and the past within reach.

Checkpoint, archive, trim, in this order and each only as far as the one before it: what a checkpoint
does not cover, an archive does not hold, a reader has not read or an operator wants to keep is never
removed. It may be killed at any time, and two of them do no harm.
"""

import threading
import time
from collections.abc import Callable, Mapping

from app import settings, telemetry
from app.domain import snapshots
from app.store import checkpoints, errors, images, opening

EVERY = 1.0
"""Seconds between two looks at the log."""
SEGMENT = 20_000
"""Entries of a segment at most: what one question into the archive reads."""
_STEP = 20_000
"""Entries trimmed by one call, during which the store does nothing else."""
_LONGEST_PAUSE = 30.0


class Compactor:
    """Compacts one cluster's log; ``run`` returns after ``stop``."""

    def __init__(
        self,
        store: opening.Store,
        options: settings.Compaction,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._options = options
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._since = monotonic()
        """When the newest checkpoint was made, or this process began."""
        self._reached = False
        self._pending = True
        """Something may be left to archive or to trim."""
        self.trouble: dict[str, str] = {}
        """Step -> what keeps it from being done."""

    def checks(self) -> Mapping[str, str | None]:
        """What readiness depends on, and what is wrong with it."""
        return {
            "store": self.trouble.get("store"),
            "state": None if self._reached else "reading the log",
            "archive": self.trouble.get("archive"),
        }

    def run(self) -> None:
        """Compact until stopped. Raises Gap or Unreadable: a person must look."""
        telemetry.loops.Loop(
            "compactor", self._compact, wait=self._stopped.wait, fatal=errors.FATAL, longest=_LONGEST_PAUSE
        ).run()

    def _compact(self) -> None:
        pause = EVERY
        while not self._stopped.wait(pause if self._reached or self.trouble else 0.0):
            try:
                self.turn()
                pause = EVERY
                self.trouble.pop("store", None)
            except (errors.StoreAway, errors.Rewound) as away:
                # Of a loss the recorder takes care: then there is another incarnation to go on in.
                self._failed("store", away)
                pause = min(2 * pause, _LONGEST_PAUSE)
            except OSError as problem:
                self._failed("archive", problem)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopped.set()

    def turn(self) -> None:
        """Look once, and do what is due; what could not be done the last time is due again."""
        store = self._store
        store.follower.catch_up()
        self._reached = True
        snapshot, at_ms = store.follower.dated()
        kept = self._usable(store.checkpoints.headers())
        away: errors.StoreAway | None = None
        if at_ms is not None and self._due(snapshot, kept):
            try:
                kept.insert(0, self._checkpoint(snapshot, at_ms))
            except errors.StoreAway as problem:
                # A store whose memory is full takes no checkpoint, but what lets go of what it holds.
                away = problem
            self._pending = True
        if self._pending and kept:
            self._archive(kept[0])
            self._pending = not self._trim(snapshot.offset, kept)
            self._thin(store.checkpoints.headers())
        if away is not None:
            raise away

    def _usable(self, kept: list[images.Header]) -> list[images.Header]:
        """Without those of a part of the log that was lost, which are let go."""
        store, usable = self._store, []
        for header in kept:
            if header.incarnation == store.log.incarnation or store.beginnings.follows(header):
                usable.append(header)
            else:
                store.checkpoints.remove(header)
        return usable

    # -- checkpoint ------------------------------------------------------------------------

    def _due(self, snapshot: snapshots.Snapshot, kept: list[images.Header]) -> bool:
        since = snapshot.offset - (kept[0].offset if kept else 0)
        late = self._monotonic() - self._since >= self._options.seconds
        return since >= self._options.events or (late and since > 0)

    def _checkpoint(self, snapshot: snapshots.Snapshot, at_ms: int) -> images.Header:
        header = self._store.checkpoints.write(snapshot, at_ms)
        self._since = self._monotonic()
        telemetry.metrics.CHECKPOINT.set(header.offset)
        telemetry.log.info(
            "made a checkpoint",
            offset=header.offset,
            items=header.items,
            bytes=header.size,
            digest=header.digest,
        )
        return header

    def _proven(self, header: images.Header) -> images.Image | None:
        """The checkpoint if every bit is as it was written; else it is let go."""
        try:
            image = self._store.checkpoints.image(header)
            images.prove(header, image.members)
        except errors.Damaged as damaged:
            telemetry.log.error("a damaged checkpoint is let go", offset=header.offset, error=str(damaged))
            self._store.checkpoints.remove(header)
            return None
        return image

    def _thin(self, kept: list[images.Header]) -> None:
        """Let those go that the log does not go on from any more, and those that are too many."""
        oldest = self._store.log.oldest()
        useless = {header.offset for header in kept if header.offset < oldest - 1}
        useful = [header.offset for header in kept if header.offset not in useless]
        useless.update(checkpoints.superfluous(useful, self._options.checkpoints))
        for header in kept:
            if header.offset in useless:
                self._store.checkpoints.remove(header)

    # -- archive ---------------------------------------------------------------------------

    def _archive(self, newest: images.Header) -> None:
        """Bring the archive up to the newest checkpoint, in segments that are read back before they count."""
        archive, log = self._store.archive, self._store.log
        if archive is None:
            return
        after = max(archive.newest(), log.oldest() - 1)
        while after < newest.offset:
            until = min(newest.offset, after + SEGMENT)
            path = archive.keep_segment(log.raws(after, until), log.incarnation)
            archive.raws(path)
            telemetry.log.info("archived", first=after + 1, last=until, file=path.name)
            after = until
        telemetry.metrics.ARCHIVED.set(after)
        last = max((file.last for file in archive.history("checkpoint")), default=0)
        # One that holds more than the events since the last would cost more than it saves.
        if newest.offset - last >= newest.items or not last:
            image = self._proven(newest)
            if image is not None:
                archive.keep_checkpoint(image)
        self.trouble.pop("archive", None)

    # -- trim ------------------------------------------------------------------------------

    def _trim(self, head: int, kept: list[images.Header]) -> bool:
        """Trim to the newest checkpoint below which nobody needs anything; false if a reader does."""
        log, target = self._store.log, self._target(head, kept)
        keep = oldest = log.oldest()
        telemetry.metrics.OLDEST.set(oldest)
        if target is None or target.offset <= oldest:
            return True
        if self._proven(target) is None:
            return False
        try:
            while keep < target.offset:
                keep = min(target.offset, keep + _STEP)
                removed = log.trim(keep, target.offset, reader_timeout=self._options.reader_timeout)
                telemetry.metrics.TRIMMED.inc(removed)
                telemetry.metrics.OLDEST.set(keep)
        except errors.Held as held:
            telemetry.log.debug("trimming waits", reader=held.reader, offset=held.offset)
            return False
        except errors.Uncovered as gone:
            # A new incarnation has begun since they were listed, which lets all of them go.
            telemetry.log.debug("trimming waits", problem=str(gone))
            return False
        telemetry.log.info("trimmed", removed=target.offset - oldest, oldest=target.offset)
        return True

    def _target(self, head: int, kept: list[images.Header]) -> images.Header | None:
        store = self._store
        limit = head - self._options.keep
        if store.archive is not None:
            limit = min(limit, store.archive.newest())
        return next((header for header in kept if header.offset <= limit), None)

    def _failed(self, step: str, problem: Exception) -> None:
        if step not in self.trouble:
            telemetry.log.warning(
                "compacting waits; nothing is lost meanwhile", step=step, error=str(problem)
            )
        telemetry.metrics.COMPACTIONS_FAILED.labels(step).inc()
        self.trouble[step] = str(problem)
