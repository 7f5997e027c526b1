"""Records decisions compactly: enough to recompute the whole Trace from the log.

Recording does not delay the reply: a draft goes into a bounded queue, and a thread packs and writes drafts
in batches. If the queue is full or the store is away, the record is counted as dropped; no verb ever waits
or fails for it.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import redis

from app import telemetry
from app.domain import snapshots
from app.store import errors, keys
from app.store.decisions import bitmap_cache, bitmaps, records
from app.store.server import connections
from app.store.state import followers, read_pace

_PAUSE_SECONDS = 0.05
"""The thread gathers for this long: waking up for each decision would delay the verbs (GIL)."""
_BATCH = 64
_SCAN = 100
_READ = 500
_NAMES = 4_000_000
"""Names of candidates that may be queued: a few hundred megabytes if no two decisions share any."""


_decoder = msgspec.json.Decoder(records.Decision)


class DecisionLog:
    """The decision records of one cluster."""

    def __init__(
        self,
        client: redis.Redis,
        names: keys.Keys,
        follower: followers.Follower,
        *,
        kept: int = 100_000,
        queued: int = 8_192,
        pace: read_pace.Pace | None = None,
    ) -> None:
        """``kept``: about how many records are stored, 0 for none; ``queued``: limit of the queue here.

        ``pace``: of the reads of many records.
        """
        self._client = client
        self._wire = connections.Wire(client)
        self._key = names.decisions
        self._follower = follower
        self._kept = kept
        self._pace = pace or read_pace.Pace()
        self._queued = queued
        self._drafts: deque[records.Draft] = deque()
        self._known = bitmap_cache.BitmapCache()
        self._stopping = threading.Event()
        self._thread: telemetry.loops.Loop | None = None
        self.dropped = 0
        """Decisions that were not recorded."""
        self.written = 0
        self.shortened = 0
        """Decisions whose record does not hold everything, because it was too large."""

    def start(self) -> None:
        """Start the writing thread."""
        if self._thread is None and self._kept:
            self._stopping.clear()
            self._thread = telemetry.loops.Loop(
                "decisions", self._write, wait=self._stopping.wait, longest=1.0
            ).start()

    def stop(self) -> None:
        """Write the queued records, then stop the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
            self._thread = None
        self._wire.close()

    def record(self, draft: records.Draft) -> None:
        """Queue the decision for recording; never waits, never raises."""
        if not self._kept:
            return
        waiting = len(self._drafts)
        if waiting >= self._queued or waiting * len(draft.names) > _NAMES:
            self.dropped += 1
        else:
            self._drafts.append(draft)

    @property
    def recording(self) -> bool:
        """Whether decisions are recorded by this process."""
        return self._kept > 0

    @property
    def waiting(self) -> int:
        """Decisions in the queue."""
        return len(self._drafts)

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        """The latest records, newest first."""
        return self.search(records.DecisionQuery(), limit=limit).records

    def search(
        self,
        wanted: records.DecisionQuery,
        *,
        limit: int = 100,
        before: str | None = None,
        max_scanned: int = records.MAX_SCANNED,
        most_bytes: int | None = None,
    ) -> records.Found:
        """At most ``limit`` of the latest matching records, in a bounded scan; ``before``: the last id seen.

        ``most_bytes``: of encoded records, with which the search ends; one is found at least.
        There is no index by pod: keeping one would cost every verb. Raises StoreAway.
        """
        found: list[records.Decision] = []
        seen, held, needles = 0, 0, wanted.prefilters()
        for entries in self._backwards(before):
            for identity, raw in entries:
                seen += 1
                if not all(needle in raw for needle in needles):
                    continue
                decision = self._decoded(identity, raw)
                if decision is not None and wanted.fits(decision):
                    found.append(decision)
                    held += len(raw)
                    if len(found) == limit or (most_bytes is not None and held >= most_bytes):
                        return records.Found(found, identity, seen)
            if seen >= max_scanned:
                return records.Found(found, entries[-1][0] if entries else None, seen)
        return records.Found(found, None, seen)

    def since(self, identity: str, *, limit: int = 1000) -> list[records.Decision]:
        """The records behind the one with this id, oldest first; fewer than ``limit`` only at the end.

        Raises StoreAway.
        """
        found: list[records.Decision] = []
        while len(found) < limit:
            wanted = limit - len(found)
            with self._pace.piece(), connections.translated():
                entries = self._client.xrange(self._key, min=f"({identity}", max="+", count=wanted)
            page = list(_raw(entries))
            found += self._read(page)
            if len(page) < wanted:
                break
            identity = page[-1][0]
        return found

    def stored(self, since_ms: int, until_ms: int | None) -> Iterator[list[tuple[str, bytes]]]:
        """Ids and undecoded records that were written in a range of time, oldest first, in pages.

        Milliseconds of the store's clock, both included; None for no end. Raises StoreAway.
        """
        oldest, newest = str(since_ms), "+" if until_ms is None else str(until_ms)
        while True:
            with self._pace.piece(), connections.translated():
                entries = self._client.xrange(self._key, min=oldest, max=newest, count=_READ)
            found = list(_raw(entries))
            readable = [one for one in found if self._decoded(*one) is not None]
            if readable:
                yield readable
            if len(found) < _READ:
                return
            oldest = f"({found[-1][0]}"

    def oldest(self) -> str:
        """The id of the oldest record; empty if there is none. Raises StoreAway."""
        with connections.translated():
            entries = self._client.xrange(self._key, min="-", max="+", count=1)
        return next((identity for identity, _ in _raw(entries)), "")

    def has_removed(self) -> bool:
        """Whether older records were removed. Raises StoreAway.

        False if the user's access list is that of an earlier version, and does not allow the question.
        """
        try:
            with connections.translated():
                found: Any = self._client.xinfo_stream(self._key)
        except errors.Denied:
            return False
        return int(found["entries-added"]) > int(found["length"])

    def get(self, identity: str) -> records.Decision | None:
        """The record; None if it does not exist, was trimmed, or is not one of Topolog's."""
        milliseconds, _, number = identity.partition("-")
        if not (_is_number(milliseconds) and _is_number(number)):
            return None
        with connections.translated():
            entries = self._client.xrange(self._key, min=identity, max=identity, count=1)
        return next(self._read(_raw(entries)), None)

    def candidates(self, decision: records.Decision, snapshot: snapshots.Snapshot) -> frozenset[str]:
        """The names that were offered; ``snapshot`` is the one at the decision's position (Histories.at).

        Raises Shortened if they were not recorded.
        """
        if snapshot.position != decision.position:
            raise errors.StoreError(
                f"decision {decision.id} was taken at {decision.position}, not at {snapshot.position}"
            )
        if "candidates" in decision.shortened:
            raise errors.Shortened(decision.id, "its candidates and victims were too many for a record")
        return self._known.unpacked(decision.candidates, snapshot.topology.everywhere)

    def recent_candidates(self, decision: records.Decision) -> frozenset[str] | None:
        """As ``candidates``, with the nodes that the follower keeps; None if it is behind, if too many
        changes of nodes have followed, or if they were not recorded.

        Only for positions that the follower has passed event by event (Follower.subscribe).
        """
        nodes = self._follower.nodes_at(decision.position)
        if nodes is None or "candidates" in decision.shortened:
            return None
        return bitmaps.unpack(decision.candidates, self._known.names(nodes))

    def _backwards(self, before: str | None) -> Iterator[list[tuple[str, bytes]]]:
        """Ids and records in pages, newest first."""
        newest = "+" if before is None else f"({before}"
        while True:
            with self._pace.piece(), connections.translated():
                entries = self._client.xrevrange(self._key, max=newest, min="-", count=_SCAN)
            found = list(_raw(entries))
            yield found
            if len(found) < _SCAN:
                return
            newest = f"({found[-1][0]}"

    def _read(self, entries: Iterable[tuple[str, bytes]]) -> Iterator[records.Decision]:
        return filter(None, (self._decoded(identity, raw) for identity, raw in entries))

    def _decoded(self, identity: str, raw: bytes) -> records.Decision | None:
        """The record; None, and a line in the log, for an entry that is not one.

        Nothing depends on a record but explanations, so that a damaged or foreign one hides no other.
        """
        try:
            found = _decoder.decode(raw)
            bitmaps.check(found.candidates)
            return msgspec.structs.replace(found, id=identity)
        except (*errors.MALFORMED, errors.Damaged) as problem:
            telemetry.log.warning(
                "skipping an entry that is not a decision record",
                key=self._key,
                id=identity,
                error=str(problem),
            )
            return None

    # -- the thread ------------------------------------------------------------------------

    def _write(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            self._drain()
        self._drain()

    def _drain(self) -> None:
        while self._drafts:
            batch = [self._drafts.popleft() for _ in range(min(_BATCH, len(self._drafts)))]
            try:
                self._send(list(self._unhurried(batch)))
                self.written += len(batch)
            except Exception:
                # A record that cannot be written must not block the next ones.
                self.dropped += len(batch)

    def _unhurried(self, batch: Iterable[records.Draft]) -> Iterator[bytes]:
        """The records; after each one the threads of the verbs may run."""
        for draft in batch:
            yield self._encoded(draft)
            time.sleep(0)

    def _encoded(self, draft: records.Draft) -> bytes:
        given = draft.snapshot
        nodes = self._follower.nodes_at(draft.position) if given is None else given.nodes
        packed = self._known.packed(draft.names, nodes)
        raw, shortened = records.Decision.of(draft, packed, _objects(draft)).encoded()
        self.shortened += shortened
        return raw

    def _send(self, records: list[bytes]) -> None:
        adding = "XADD", self._key, "MAXLEN", "~", self._kept, "*", "d"
        packed = [piece for record in records for piece in self._wire.pack(*adding, record)]
        try:
            self._wire.send([b"".join(packed)])
            for _ in records:
                self._wire.receive()
        except errors.StoreError:
            # Replies that still arrive must not be used for the next batch.
            self._wire.close()
            raise


def _objects(draft: records.Draft) -> tuple[str, ...]:
    """The objects that the decision concerns; none, and a line in the log, if a plugin cannot name them."""
    try:
        return draft.objects()
    except Exception as problem:
        telemetry.log.warning("cannot name the objects of a decision", pod=draft.pod.key, error=repr(problem))
        return ()


def _is_number(text: str) -> bool:
    """Whether the text is half of a stream id: an unsigned number of 64 bits."""
    return text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) < 2**64


def _raw(entries: object) -> Iterator[tuple[str, bytes]]:
    if isinstance(entries, list):
        for identity, fields in entries:
            yield identity.decode(), fields.get(b"d", b"")
