"""The compactor: it keeps the log short and the past within reach.

Checkpoint, archive, trim, in this order and each only as far as the one before it: what a checkpoint
does not cover, an archive does not hold, a reader has not read or an operator wants to keep is never
removed. It may be killed at any time, and two of them do no harm. Where the log or the decision records
take too much memory (weighing), less is kept than was wanted: the oldest goes first, in the same order.
"""

import threading
import time
from collections.abc import Callable, Mapping

from app import settings, telemetry
from app.domain import snapshots
from app.store import checkpoints, errors, images, opening, reports
from workers import weighing

EVERY = 1.0
"""Seconds between two looks at the log; fewer if memory gets short."""
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
        self._weigher = weighing.Weigher(store.scale, options, monotonic=monotonic)
        self._reports = reports.Reports(store.client, store.keys)
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
            "memory": self.trouble.get("memory"),
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
                pause = min(EVERY, self._weigher.pause)
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
        self._weigh()
        self._mend()
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
        if kept and (self._pending or self._weigher.excessive):
            self._archive(kept[0])
            self._pending = not self._trim(self._target(snapshot.offset - self._options.keep, kept))
            self._shed(kept)
            self._thin(store.checkpoints.headers())
        if self._weigher.pressed:
            used = self._weigher.memory
            self._failed("memory", MemoryError(f"{used} are used, and nothing more can be trimmed yet"))
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

    # -- memory ----------------------------------------------------------------------------

    def _weigh(self) -> None:
        try:
            self._weigher.turn()
        except errors.Denied as denied:
            self._failed("memory", denied)
            return
        if self._weigher.pressed:
            self._weigher.relieve()
        else:
            self.trouble.pop("memory", None)

    def _shed(self, kept: list[images.Header]) -> None:
        """Trim what was to be kept, a checkpoint at a time, until neither log nor memory is excessive."""
        weigher, log = self._weigher, self._store.log
        while weigher.excessive:
            oldest = log.oldest()
            target = self._target(kept[0].offset, [one for one in reversed(kept) if one.offset > oldest])
            shorter = target is not None and self._trim(target)
            if shorter:
                weigher.trimmed(whole=target is kept[0])
            if not weigher.relieve() and not shorter:
                break

    def _mend(self) -> None:
        """Let the checkpoints go that the auditor knows to be damaged, or not the state at their offset."""
        try:
            report = self._reports.latest()
        except errors.StoreAway:
            raise
        except errors.StoreError:
            return  # The auditor writes another one over it.
        if report is None or report.incarnation != self._store.log.incarnation:
            return
        for one in report.differences:
            field = one.key.removeprefix("checkpoint:")
            if one.kind == "checkpoint":
                telemetry.log.error("a damaged checkpoint is let go", key=one.key, error=one.blame)
                self._store.checkpoints.forget(field)
                self._pending = True

    # -- checkpoint ------------------------------------------------------------------------

    def _due(self, snapshot: snapshots.Snapshot, kept: list[images.Header]) -> bool:
        since = snapshot.offset - (kept[0].offset if kept else 0)
        late = self._monotonic() - self._since >= self._options.seconds
        large = self._weigher.due(kept[0].size if kept else 0)
        oldest = self._store.log.oldest()
        uncovered = oldest > 1 and not any(header.offset >= oldest - 1 for header in kept)
        return uncovered or since >= self._options.events or ((late or large) and since > 0)

    def _checkpoint(self, snapshot: snapshots.Snapshot, at_ms: int) -> images.Header:
        header = self._store.checkpoints.write(snapshot, at_ms)
        self._since = self._monotonic()
        self._weigher.checkpointed()
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

    def _trim(self, target: images.Header | None) -> bool:
        """Trim to a checkpoint; false if a reader needs what is below it."""
        log = self._store.log
        keep = oldest = log.oldest()
        telemetry.metrics.OLDEST.set(oldest)
        if target is None or target.offset <= oldest:
            return True
        if self._proven(target) is None:
            return False
        self._store.follower.attend()
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

    def _target(self, limit: int, kept: list[images.Header]) -> images.Header | None:
        """The first of the checkpoints that is not beyond the limit, nor beyond what is in the archive."""
        archive = self._store.archive
        if archive is not None:
            limit = min(limit, archive.newest())
        return next((header for header in kept if header.offset <= limit), None)

    def _failed(self, step: str, problem: Exception) -> None:
        if step not in self.trouble:
            telemetry.log.warning(
                "compacting waits; nothing is lost meanwhile", step=step, error=str(problem)
            )
        telemetry.metrics.COMPACTIONS_FAILED.labels(step).inc()
        self.trouble[step] = str(problem)
