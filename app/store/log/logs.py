"""The log of one cluster: guarded appends, and reads that detect lost history.

``Log`` combines its parts: ``appenders`` calls the writing functions, ``readers`` reads and verifies entries,
``stored_log`` reads metadata and views, ``incarnations.Followed`` remembers what was in the log.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

import redis

from app.domain import events, model
from app.store import errors, keys
from app.store.log import appenders, batches, incarnations, lineages, readers, stored_log
from app.store.server import pools, retries

NO_GUARD = batches.Guard()

_READERS = 32
"""Threads that can read at the same time; connections are opened when first needed."""
_TRIED_EVERY, _PATIENCE = 1.0, 0.5
"""Seconds between two empty appends while the end of the log is in doubt, and for each of them at most."""


class Log:
    """The log of one cluster; thread-safe."""

    def __init__(
        self,
        client: redis.Redis,
        names: keys.Keys,
        incarnation: str,
        *,
        timeout: float = 2.0,
        synced: bool = False,
    ) -> None:
        """``timeout``: seconds until a call gives up with StoreAway, its retries included.

        ``synced``: a placement that may not be on the server's disk raises StoreAway.
        """
        self._client = client
        self._names = names
        self._timeout = timeout
        self._followed = incarnations.Followed(incarnation)
        self._appender = appenders.Appender(client, names, self._followed, timeout=timeout, synced=synced)
        self._readers = pools.Pool(self.reader, _READERS)
        self._stored = stored_log.StoredLog(client, names)
        self.foreign: tuple[str, str] | None = None
        """The UIDs of the log's Kubernetes cluster and of this process's if they differ (health.identity)."""
        self.compared_in: str | None = None
        """The incarnation whose cluster this process has compared, empty before; None if it compares none."""
        self.on_switch: Callable[[], None] = lambda: None
        """Called when another incarnation is followed, of which the cluster is not compared yet."""
        self._trying, self._tried_at = threading.Lock(), -_TRIED_EVERY

    @property
    def compared(self) -> bool:
        """False until a process that compares them has had both: nothing may be decided by the log."""
        return self.compared_in is None or self.compared_in == self.incarnation

    def check_owner(self) -> None:
        """Raise OtherCluster if the log is known to be another Kubernetes cluster's: no call to the store."""
        if self.foreign is not None:
            raise self.other_cluster(*self.foreign)

    def other_cluster(self, found: str, here: str) -> errors.OtherCluster:
        """The error of a log of the Kubernetes cluster with UID ``found``; this process's has ``here``."""
        return errors.OtherCluster(self.cluster, found, here, self._names.meta)

    def check_compared(self) -> None:
        """As ``check_owner``; raise StoreAway, too, while it is unknown whose log it is."""
        self.check_owner()
        if not self.compared:
            raise errors.StoreAway("it is not known yet whether the log is this cluster's")

    @property
    def in_doubt(self) -> bool:
        """Whether the store refused the last append because it may lack the end of the log."""
        return self._followed.in_doubt

    def lacking(self, position: model.Position) -> bool:
        """Whether a snapshot at the position may lack events that the store lost: nothing follows from it."""
        return self._followed.lacking(position)

    def check_end(self, now: float, *, timeout: float) -> None:
        """Raise StoreAway while the end of the log is in doubt.

        One caller a second finds out, by an empty append, whether it still is; ``now``: monotonic seconds.
        """
        if now - self._tried_at >= _TRIED_EVERY and self._trying.acquire(blocking=False):
            try:
                self._tried_at = now
                with contextlib.suppress(errors.StoreError):
                    self.append(batches.Batch(events=()), timeout=min(timeout, _PATIENCE))
            finally:
                self._trying.release()
        if self.in_doubt:
            raise errors.StoreAway(
                "the store was restarted or lost events, and no recorder has checked the end of its log yet"
            )

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._names.cluster

    def close(self) -> None:
        """Close the connections that are idle."""
        self._appender.close()
        self._readers.close()

    # -- writing ---------------------------------------------------------------------------

    def append(
        self, batch: batches.Batch, guard: batches.Guard = NO_GUARD, *, timeout: float | None = None
    ) -> batches.Appended:
        """Append the batch if the guard holds.

        Raises Conflict, CeilingReached, Fenced, Rewound or OtherCluster, and then nothing was changed;
        StoreAway if no reply arrived within the timeout, and then the outcome is unknown.
        """
        self.check_owner()
        return self._appender.append(batch, guard, timeout=timeout)

    def trim(self, keep: int, checkpoint: int, *, reader_timeout: float) -> int:
        """Remove the entries below ``keep``; a checkpoint at or after it must cover them.

        Returns how many were removed. Raises Held while a reader that sent a heartbeat within the timeout
        (seconds) has not read so far; Uncovered if there is no such checkpoint; Rewound.
        """
        return self._appender.trim(keep, checkpoint, reader_timeout=reader_timeout)

    # -- reading ---------------------------------------------------------------------------

    def read(self, after: int, *, limit: int = readers.CHUNK) -> list[readers.Entry]:
        """The entries behind an offset, oldest first; raises Rewound, Gap, Trimmed or StoreAway."""
        return self._read(lambda reader, timeout: reader.read(after, limit=limit, timeout=timeout)).entries

    def read_past(
        self, after: int, *, limit: int = readers.CHUNK, incarnation: str | None = None
    ) -> readers.Read:
        """As ``read``, undecoded, for reads of many entries: see ``LogReader.read_past``.

        ``incarnation``: that of the reads before, which together are of one log; by default the present one.
        """
        return self._read(
            lambda reader, timeout: reader.read_past(after, limit=limit, timeout=timeout), incarnation
        )

    def prove(self, offset: int, at_ms: int) -> None:
        """Return if the log still holds the entry that was appended at the offset then.

        Raises Rewound if it is another entry, Trimmed if it is no longer there, Gap or StoreAway.
        """
        self._read(lambda reader, timeout: reader.read(offset, at_ms, limit=1, timeout=timeout))

    def read_all(self, after: int, known_ms: int | None = None) -> Iterator[readers.Read]:
        """Reads from behind an offset up to the head, many entries at a time; raises as ``read`` does."""
        deadline = retries.RetryDeadline(self._timeout)
        with self._readers.borrowed(self._timeout) as reader:
            reader.incarnation = self.incarnation
            while True:
                reads = reader.read_all(after, known_ms, timeout=self._timeout)
                try:
                    first = next(reads)
                    break
                except errors.StoreAway:
                    # A connection that was kept does not outlast a restart of the server.
                    if not deadline.again():
                        raise
            yield first
            yield from reads

    def reader(self) -> readers.LogReader:
        """A connection for a thread that reads often."""
        return readers.LogReader(self._client, self._names, self.incarnation)

    def _read(
        self, read: Callable[[readers.LogReader, float], readers.Read], incarnation: str | None = None
    ) -> readers.Read:
        """The result of ``read``, which is called with a connection and seconds until it has a reply."""
        deadline = retries.RetryDeadline(self._timeout)
        with self._readers.borrowed(self._timeout) as reader:
            reader.incarnation = self.incarnation if incarnation is None else incarnation
            while True:
                try:
                    return read(reader, deadline.attempt)
                except errors.StoreAway:
                    if not deadline.again():
                        raise

    # -- what the store holds, unverified ----------------------------------------------------

    def head(self) -> model.Position:
        """The last position written."""
        return model.Position(self.incarnation, self._stored.head())

    def resume_versions(self) -> dict[str, str]:
        """The fields of the metadata that were set by ``Batch.marks``, such as ``rv:pods``."""
        return self._stored.resume_versions()

    def time_of(self, offset: int) -> int | None:
        """When the entry was appended (milliseconds); None if the log does not hold it."""
        return self._stored.time_of(offset)

    def oldest(self) -> int:
        """The first offset that the log still holds; of an empty log the offset of its next entry."""
        return self._stored.oldest()

    def raws(self, after: int, until: int) -> list[readers.Raw]:
        """The undecoded entries from ``after + 1`` to ``until``; raises Gap if one is missing."""
        return self._stored.raws(after, until)

    # -- incarnations ------------------------------------------------------------------------

    @property
    def incarnation(self) -> str:
        """The incarnation that is followed here."""
        return self._followed.seen.incarnation

    @property
    def seen(self) -> incarnations.Watermark:
        """The latest entry of the incarnation that is known here to have been in the log."""
        return self._followed.seen

    @property
    def left(self) -> incarnations.Watermark:
        """The latest entry known of the incarnation that was followed before."""
        return self._followed.left

    def note(self, known: incarnations.Watermark) -> None:
        """Remember that this was in the log: once it no longer is, the next append raises Rewound."""
        self._followed.note(known)

    def follow(self, incarnation: str) -> None:
        """Continue in another incarnation, of which nothing was read yet."""
        self._followed.switch(incarnation)
        self.on_switch()

    def state(self) -> incarnations.StoreState:
        """The state of the store, without calling its functions. Raises Unbegun or StoreAway."""
        state = self._stored.state()
        if state.incarnation != self.incarnation:
            lineages.prove(self._client, self._names, state.incarnation)
        return state

    def consumers(self) -> dict[str, tuple[int, int]]:
        """Consumer -> its offset, and when it reported that (milliseconds by the store's clock)."""
        return self._stored.consumers()

    def report_loss(self, known: incarnations.Watermark) -> bool:
        """Report an entry that was in the log to the store; true if the log still holds it.

        Otherwise the store refuses every append and read until a recorder has begun a new incarnation.
        """
        return self._appender.report_loss(known)

    def rewind(
        self, event: events.StoreRewound, incarnation: str, *, found: str, guard: batches.Guard
    ) -> bool:
        """Begin an incarnation with this event, if the store's is still ``found`` (empty: an empty store).

        The log keeps its entries; the watches' resume versions are deleted. False if the store is in
        another incarnation by now. Raises Fenced, OtherCluster or StoreAway.
        """
        self.check_owner()
        return self._appender.rewind(event, incarnation, found=found, guard=guard)
