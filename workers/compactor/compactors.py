"""The compactor: keeps the log short, and its past readable.

It takes a checkpoint, archives and trims, in this order, and each only as far as the step before it: an
entry that no checkpoint covers, the archive lacks, a reader has not read or an operator wants to keep is
never removed. It may be killed at any time, and two compactors do no harm. If the log or the decision
records take too much memory (memory_pressure), less is kept than configured: the oldest entries go first, in
the same order.
"""

import functools
import threading
import time
from collections.abc import Callable, Mapping

from app import settings, telemetry
from app.domain import snapshots
from app.kube.watch import kinds
from app.pauses import Pauses
from app.store import audit_reports, errors, snapshot_format, stores
from app.store.checkpoints import checkpoints
from app.store.server import server_certificates
from workers.compactor import archivers, memory_pressure, store_certificates

EVERY = 1.0
"""Seconds between two runs; fewer if memory gets short."""
_STEP = 20_000
"""Entries trimmed by one call, during which the store serves no other."""
_LONGEST_PAUSE = 30.0
_SILENT = 120.0
"""Seconds after which a call of the archive that has not returned is reported. A request to an object store
ends before, its repetitions included; a network file system may block until its server is back."""
_PROVEN_SECONDS = 60.0
"""Seconds for which a checkpoint that was found intact is not read again."""


class Compactor:
    """Compacts one cluster's log; ``run`` returns after ``stop``."""

    def __init__(
        self,
        store: stores.Store,
        options: settings.Compaction,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._options = options
        self._monotonic = monotonic
        self._pressure = memory_pressure.MemoryPressure(store.memory_use, options, monotonic=monotonic)
        self._certificate = store_certificates.CertificateExpiry(
            functools.partial(server_certificates.expiry, store.client), monotonic=monotonic
        )
        self._archiver = archivers.Archiver(store, self._verified)
        self._reports = audit_reports.Reports(store.client, store.keys)
        self._stopped = threading.Event()
        self._since = monotonic()
        """When the newest checkpoint was taken, or this process started."""
        self._reached = False
        self._pending = True
        """Something may be left to archive or to trim."""
        self._proven: snapshot_format.Header | None = None
        """The last checkpoint that was found intact before a trim, which may have to wait for a reader."""
        self._proven_at = 0.0
        self._dropped: frozenset[str] = frozenset()
        """The checkpoints that the last report of the auditor has, by the fields of their headers."""
        self._archive_pauses = Pauses(2 * EVERY, _LONGEST_PAUSE)
        """Between two attempts to extend the archive."""
        self._archive_due = 0.0
        """Monotonic: when the archive, once it has failed, is tried again."""
        self.problem: dict[str, str] = {}
        """Step -> why it cannot be done."""

    def checks(self) -> Mapping[str, str | None]:
        """Readiness checks by name: a problem, or None."""
        return {
            "store": self.problem.get("store"),
            "state": None if self._reached else "reading the log",
            "archive": self.problem.get("archive") or self._silence(),
            "memory": self.problem.get("memory"),
            "form": self.problem.get("form"),
        }

    def run(self) -> None:
        """Compact until stopped. Raises Gap or Unreadable, which need an operator."""
        telemetry.loops.Loop(
            "compactor", self._compact, wait=self._stopped.wait, fatal=errors.FATAL, longest=_LONGEST_PAUSE
        ).run()

    def _compact(self) -> None:
        pause, pauses = 0.0, Pauses(2 * EVERY, _LONGEST_PAUSE)
        while not self._stopped.wait(pause):
            try:
                self.run_once()
                pause = min(EVERY, self._pressure.pause)
                pauses.reset()
                self.problem.pop("store", None)
                if self._store.archive is None:
                    self.problem.pop("archive", None)
            except (errors.ArchiveAway, errors.Damaged) as problem:
                self._failed("archive", problem)
                self._pending = True
                # The memory is measured meanwhile: it fills faster while the log cannot be trimmed.
                pause = min(EVERY, self._pressure.pause)
                pauses.reset()
                self._archive_due = self._monotonic() + self._archive_pauses.take()
            except (errors.StoreAway, errors.Rewound, errors.OtherCluster) as away:
                # The recorder recovers from a loss; then compacting continues in a new incarnation.
                self._failed("store", away)
                pause = pauses.take()

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopped.set()

    def run_once(self) -> None:
        """Do what is due once; a step that failed the last time is due again.

        Raises StoreAway, Rewound, OtherCluster, ArchiveAway or Damaged.
        """
        store = self._store
        # The log of another cluster is kept as long as that one's own compactor keeps it.
        store.log.check_owner()
        store.follower.catch_up()
        self._reached = True
        self._measure()
        self._certificate.run_once()
        self._drop_corrupt()
        snapshot, at_ms = store.follower.dated()
        kept = self._usable(store.checkpoints.headers(), snapshot.offset, at_ms)
        away: errors.StoreAway | None = None
        due = at_ms is not None and self._due(snapshot, kept)
        if not due:
            self.problem.pop("form", None)  # Another compactor has taken the checkpoint.
        if at_ms is not None and due and self._whole():
            try:
                kept.insert(0, self._checkpoint(snapshot, at_ms))
            except errors.StoreAway as problem:
                # A store whose memory is full accepts no checkpoint, but it accepts trimming.
                away = problem
            self._pending = True
        if kept:
            telemetry.metrics.CHECKPOINT.set(kept[0].offset)
        try:
            if kept and (self._pending or self._pressure.excessive):
                self._shorten(snapshot, kept)
        finally:
            if self._pressure.pressed:
                used = self._pressure.memory
                self._failed("memory", MemoryError(f"{used} are in use, and nothing more can be trimmed yet"))
        if away is not None:
            raise away

    def _shorten(self, snapshot: snapshots.Snapshot, kept: list[snapshot_format.Header]) -> None:
        """Archive, trim and thin; only the last while the archive is away, or is not due again."""
        if self._monotonic() >= self._archive_due:
            try:
                self._archiver.extend(kept[0])
            except (errors.ArchiveAway, errors.Damaged):
                self._thin()
                raise
            self._archive_pauses.reset()
            self.problem.pop("archive", None)
            self._pending = not self._trim(self._target(snapshot.offset - self._options.keep, kept), kept[0])
            self._shed(kept)
        self._thin()

    def _usable(
        self, kept: list[snapshot_format.Header], offset: int, at_ms: int | None
    ) -> list[snapshot_format.Header]:
        """The checkpoints that the log continues from; those of a lost part of the log are deleted.

        ``offset`` and ``at_ms``: where the log was read to. Raises Rewound if it is not this log any more:
        then it seems to continue from none of them.
        """
        store = self._store
        usable = [
            header
            for header in kept
            if header.incarnation == store.log.incarnation or store.recovery_points.follows(header)
        ]
        if len(usable) < len(kept) and at_ms is not None:
            store.log.prove(offset, at_ms)
            for header in kept:
                if header not in usable:
                    store.checkpoints.remove(header)
        return usable

    # -- memory ----------------------------------------------------------------------------

    def _measure(self) -> None:
        try:
            self._pressure.run_once()
        except errors.Denied as denied:
            self._failed("memory", denied)
            return
        if self._pressure.pressed:
            self._pressure.relieve()
        else:
            self.problem.pop("memory", None)

    def _shed(self, kept: list[snapshot_format.Header]) -> None:
        """Trim entries that should be kept, a checkpoint at a time, until log and memory are in bounds."""
        pressure, log = self._pressure, self._store.log
        while pressure.excessive:
            oldest = log.oldest()
            target = self._target(kept[0].offset, [one for one in reversed(kept) if one.offset > oldest])
            shorter = target is not None and self._trim(target, kept[0])
            if not pressure.relieve() and not shorter:
                break

    def _drop_corrupt(self) -> None:
        """Delete the checkpoints that the auditor found to be corrupt, or not the state at their offset.

        Each is deleted once while reports have it: the auditor may verify the next one at the same offset
        much later, or have ended.
        """
        try:
            report = self._reports.latest()
        except errors.StoreAway:
            raise
        except errors.StoreError:
            return  # The auditor overwrites it with its next report.
        found = {}
        if report is not None and report.incarnation == self._store.log.incarnation:
            corrupt = (one for one in report.differences if one.kind == "checkpoint")
            found = {one.key.removeprefix("checkpoint:"): one.blame for one in corrupt}
        for field in found.keys() - self._dropped:
            if self._store.checkpoints.forget(field):
                telemetry.log.error("deleted corrupt checkpoint", offset=field, error=found[field])
                self._pending = True
        self._dropped = frozenset(found)

    # -- checkpoint ------------------------------------------------------------------------

    def _due(self, snapshot: snapshots.Snapshot, kept: list[snapshot_format.Header]) -> bool:
        since = snapshot.offset - (kept[0].offset if kept else 0)
        late = self._monotonic() - self._since >= self._options.seconds
        large = self._pressure.due(kept[0].size if kept else 0)
        oldest = self._store.log.oldest()
        uncovered = oldest > 1 and not any(header.offset >= oldest - 1 for header in kept)
        return uncovered or since >= self._options.events or ((late or large) and since > 0)

    def _whole(self) -> bool:
        """Whether the state that was read has all that the log keeps of the objects.

        A process of another version ignores the fields that it does not have: a checkpoint without them
        would replace them by their defaults, and nothing would be listed again. Raises StoreAway.
        """
        marks = self._store.log.resume_versions()
        # An empty mark is that of a kind which the recorder does not watch, or lists now.
        watched = (kind for kind in kinds.watched(self._store.schema) if marks.get(kind.mark))
        other = [kind.name for kind in watched if kind.differs(marks)]
        if other:
            self._failed(
                "form",
                f"no checkpoint is taken, because the recorder keeps other fields of {', '.join(other)} than"
                " this process: let both have the same version of Topolog and of the distributions with"
                " plugins; if they have, the recorder has not listed them yet, and its readiness names why",
            )
        else:
            self.problem.pop("form", None)
        return not other

    def _checkpoint(self, snapshot: snapshots.Snapshot, at_ms: int) -> snapshot_format.Header:
        header = self._store.checkpoints.write(snapshot, at_ms)
        self._since = self._monotonic()
        self._pressure.checkpointed()
        telemetry.log.info(
            "checkpoint taken",
            offset=header.offset,
            items=header.items,
            bytes=header.size,
            digest=header.digest,
        )
        return header

    def _verified(self, header: snapshot_format.Header) -> snapshot_format.SerializedSnapshot | None:
        """The checkpoint if its digest is intact; a corrupt one is deleted."""
        try:
            serialized = self._store.checkpoints.serialized(header)
            snapshot_format.prove(header, serialized.members)
        except errors.Damaged as damaged:
            telemetry.log.error("deleting corrupt checkpoint", offset=header.offset, error=str(damaged))
            self._store.checkpoints.remove(header)
            return None
        return serialized

    def _thin(self) -> None:
        """Delete checkpoints that the log no longer continues from, and those that are too many.

        This needs no archive: while that is away, checkpoints would fill the store.
        """
        kept, oldest = self._store.checkpoints.headers(), self._store.log.oldest()
        useless = {header.offset for header in kept if header.offset < oldest - 1}
        useful = [header.offset for header in kept if header.offset not in useless]
        useless.update(checkpoints.superfluous(useful, self._options.checkpoints))
        for header in kept:
            if header.offset in useless:
                self._store.checkpoints.remove(header)

    # -- trim ------------------------------------------------------------------------------

    def _trim(self, target: snapshot_format.Header | None, newest: snapshot_format.Header) -> bool:
        """Trim to a checkpoint; false if a reader needs older entries, or may need them."""
        log, follower, timeout = self._store.log, self._store.follower, self._options.reader_timeout
        keep = oldest = log.oldest()
        telemetry.metrics.OLDEST.set(oldest)
        if target is None or target.offset <= oldest:
            return True
        now = self._monotonic()
        if target != self._proven or now - self._proven_at >= _PROVEN_SECONDS:
            if self._verified(target) is None:
                return False
            self._proven, self._proven_at = target, now
        try:
            while keep < target.offset:
                # Before each step: the clock may be set, and the store replaced, between two of them.
                follower.heartbeat()
                if not follower.clock_steady_for(timeout):
                    self._failed("clock", "trimming waits for heartbeats by the store's clock as it is now")
                    return False
                self.problem.pop("clock", None)
                keep = min(target.offset, keep + _STEP)
                removed = log.trim(keep, target.offset, reader_timeout=timeout)
                telemetry.metrics.TRIMMED.inc(removed)
                telemetry.metrics.OLDEST.set(keep)
        except errors.Held as held:
            telemetry.log.debug("trimming waits for a reader", reader=held.reader, offset=held.offset)
            return False
        except errors.Uncovered as gone:
            # A new incarnation has begun since the checkpoints were listed, and deleted all of them.
            telemetry.log.debug("trimming waits for a checkpoint", problem=str(gone))
            return False
        telemetry.log.info("trimmed", removed=target.offset - oldest, oldest=target.offset)
        self._pressure.trimmed(whole=target == newest)
        return True

    def _target(self, limit: int, kept: list[snapshot_format.Header]) -> snapshot_format.Header | None:
        """The first of the checkpoints that is within the limit and within the archive."""
        if self._store.archive is not None:
            limit = min(limit, self._archiver.archived)
        return next((header for header in kept if header.offset <= limit), None)

    def _failed(self, step: str, problem: Exception | str) -> None:
        if step not in self.problem:
            telemetry.log.warning("compaction is delayed; no data is lost", step=step, error=str(problem))
        telemetry.metrics.COMPACTIONS_FAILED.labels(step).inc()
        self.problem[step] = str(problem)

    def _silence(self) -> str | None:
        waiting = self._store.archive.waiting if self._store.archive is not None else 0.0
        return f"no answer for {waiting:.0f} s" if waiting >= _SILENT else None
