"""Extends the archive of one cluster up to a checkpoint; trimming follows it and never passes it."""

from collections.abc import Callable

import msgspec

from app import telemetry
from app.store import errors, snapshot_format, stores
from app.store.checkpoints import archive_files, archives
from app.store.log import incarnations, loss_detection

SEGMENT = 20_000
"""Maximum entries of a segment, which a query of the archive reads as a whole."""


class Archiver:
    """Writes segments and checkpoints into the archive, if the store has one; used by one thread."""

    def __init__(
        self,
        store: stores.Store,
        verified: Callable[[snapshot_format.Header], snapshot_format.SerializedSnapshot | None],
    ) -> None:
        """``verified`` returns the checkpoint of a header, or None if it is corrupt."""
        self._store = store
        self._verified = verified
        self._continued = ""
        """The last segment that is known to be continued by the log."""
        self.archived = 0
        """The end of that segment: nothing behind it is trimmed, even if another process has archived it."""

    def extend(self, newest: snapshot_format.Header) -> None:
        """Extend the archive to the newest checkpoint; each segment is verified by reading it back.

        Raises Rewound if the log lost what is archived or should be; Gap, Damaged, ArchiveAway or StoreAway.
        """
        archive, log = self._store.archive, self._store.log
        if archive is None:
            return
        after, files = self._accept(archive)
        while after < newest.offset:
            until = min(newest.offset, after + SEGMENT)
            try:
                raws = log.raws(after, until)
            except errors.Gap:
                if log.oldest() > after + 1:
                    after, files = self._accept(archive)  # Another compactor has archived and trimmed them.
                    continue
                log.prove(newest.offset, newest.at_ms)
                raise
            name = archive.keep_segment(raws, log.incarnation)
            self._verify(archive, name)
            files += archive_files.listed([name])
            self._continued = name
            telemetry.log.info("archived", first=after + 1, last=until, file=name)
            self.archived = after = until
        telemetry.metrics.ARCHIVED.set(after)
        checkpoints = archive_files.history(files, log.incarnation, "checkpoint")
        last = max((file.last for file in checkpoints), default=0)
        # A checkpoint with more items than there are events since the last one costs more than it saves.
        if newest.offset - last >= newest.items or not last:
            serialized = self._verified(newest)
            if serialized is not None:
                # The log continues it. Under the name of a former incarnation it would not be history.
                header = msgspec.structs.replace(serialized.header, incarnation=log.incarnation)
                archive.keep_checkpoint(snapshot_format.SerializedSnapshot(header, serialized.members))

    def _accept(self, archive: archives.Archive) -> tuple[int, list[archive_files.File]]:
        """Verify and prove the last segment, once.

        Returns the offset behind which the archive is continued, and its files.
        Raises Rewound, Damaged, ArchiveAway or StoreAway.
        """
        # In this order: what was trimmed before is listed.
        oldest, files = self._store.log.oldest(), archive.files()
        latest = archive.latest(files)
        if latest is not None and latest.name != self._continued:
            # It may be of a process that ended before it had read it back.
            if latest.first >= oldest:
                self._verify(archive, latest.name)
            self._prove(archive, latest.name)
            self._continued = latest.name
        self.archived = latest.last if latest is not None else 0
        return max(self.archived, oldest - 1), files

    def _prove(self, archive: archives.Archive, name: str) -> None:
        """Report the loss of the end of a segment of this incarnation that the log no longer holds.

        After a power failure, or once store and Lease are restored from one backup, the archive may be the
        last that has the lost events. A segment without a readable header shows no loss, and cannot be
        written again. Raises Rewound, Damaged, ArchiveAway or StoreAway.
        """
        log = self._store.log
        try:
            header = archive.header(name)
        except errors.Damaged as damaged:
            telemetry.log.error("a segment of the archive is damaged", file=name, error=str(damaged))
            return
        end = incarnations.Watermark(header.incarnation, header.last, header.until_ms)
        if log.report_loss(end):
            return
        oldest, archived = log.oldest(), loss_detection.TimestampHistory()
        times = [raw.t for raw in archive.raws(name) if raw.offset >= oldest]
        archived.add(header.last - len(times), times)
        log.report_loss(end._replace(kept=archived.first_divergence(log.time_of)))
        raise errors.Rewound(f"offset {header.last} is in the archive, and the log no longer holds it")

    def _verify(self, archive: archives.Archive, name: str) -> None:
        """Read a segment back; one that is not as it was written is removed.

        Raises Damaged or ArchiveAway.
        """
        try:
            archive.raws(name)
        except errors.Damaged:
            archive.remove(name)
            raise
