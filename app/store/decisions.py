"""What was decided, kept small: enough to compute the whole Trace again from the log.

Recording is off the answer's path: a draft goes into a bounded queue, a thread packs what has come
together and writes it in one go. A record that finds no room, or a store that is away, is counted
as dropped; no verb ever waits or fails for it.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec
import redis

from app import telemetry
from app.domain import snapshots
from app.store import connecting, errors, following, keys, naming, packing, records

_PAUSE_SECONDS = 0.05
"""The thread gathers this long: waking up for each decision would take the interpreter from the verbs."""
_BATCH = 64
_SCAN = 100
_NAMES = 4_000_000
"""Names of candidates that may wait: a few hundred megabytes if no two decisions share any."""


_decoder = msgspec.json.Decoder(records.Decision)


class Decisions:
    """The decision records of one cluster."""

    def __init__(
        self,
        client: redis.Redis,
        names: keys.Keys,
        follower: following.Follower,
        *,
        kept: int = 100_000,
        queued: int = 8_192,
    ) -> None:
        """``kept``: about how many records the store holds, 0: none; ``queued``: how many may wait here."""
        self._client = client
        self._wire = connecting.Wire(client)
        self._key = names.decisions
        self._follower = follower
        self._kept = kept
        self._queued = queued
        self._drafts: deque[records.Draft] = deque()
        self._known = naming.Known()
        self._stopping = threading.Event()
        self._thread: telemetry.loops.Loop | None = None
        self.dropped = 0
        """Decisions that were not recorded."""
        self.written = 0
        self.shortened = 0
        """Decisions whose record does not hold everything, because it was too large."""

    def start(self) -> None:
        """Begin to write in a thread of its own."""
        if self._thread is None and self._kept:
            self._stopping.clear()
            self._thread = telemetry.loops.Loop(
                "decisions", self._write, wait=self._stopping.wait, longest=1.0
            ).start()

    def stop(self) -> None:
        """Write what waits, then end the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
            self._thread = None
        self._wire.close()

    def record(self, draft: records.Draft) -> None:
        """Put the decision on record soon; never waits, never raises."""
        if not self._kept:
            return
        waiting = len(self._drafts)
        if waiting >= self._queued or waiting * len(draft.names) > _NAMES:
            self.dropped += 1
        else:
            self._drafts.append(draft)

    @property
    def waiting(self) -> int:
        """Decisions in the queue."""
        return len(self._drafts)

    def latest(
        self,
        *,
        limit: int = 100,
        before: str | None = None,
        pod: str | None = None,
        node: str | None = None,
        plugin: str | None = None,
        reason: str | None = None,
        outcome: str | None = None,
        verb: str | None = None,
    ) -> list[records.Decision]:
        """The latest records that fit, newest first, however many must be looked through (see ``search``)."""
        wanted = records.Wanted(pod, node, plugin, reason, outcome, verb)
        return self.search(wanted, limit=limit, before=before, looked_at=None).records

    def search(
        self,
        wanted: records.Wanted,
        *,
        limit: int = 100,
        before: str | None = None,
        looked_at: int | None = records.LOOKED_AT,
    ) -> records.Found:
        """At most so many of the latest records, among so many looked at; ``before``: the last one seen.

        There is no index by pod: keeping one would cost every verb. Raises StoreAway.
        """
        found: list[records.Decision] = []
        seen, needles = 0, wanted.needles()
        for entries in self._backwards(before):
            for identity, raw in entries:
                seen += 1
                if not all(needle in raw for needle in needles):
                    continue
                decision = _decoded(identity, raw)
                if wanted.fits(decision):
                    found.append(decision)
                    if len(found) == limit:
                        return records.Found(found, identity, seen)
            if looked_at is not None and seen >= looked_at:
                return records.Found(found, entries[-1][0] if entries else None, seen)
        return records.Found(found, None, seen)

    def since(self, identity: str, *, limit: int = 1000) -> list[records.Decision]:
        """The records behind the one with this id, oldest first. Raises StoreAway."""
        with connecting.translated():
            entries = self._client.xrange(self._key, min=f"({identity}", max="+", count=limit)
        return list(_read(entries))

    def get(self, identity: str) -> records.Decision | None:
        """The record, or None if there is none (any more)."""
        milliseconds, _, number = identity.partition("-")
        if not (_is_number(milliseconds) and _is_number(number)):
            return None
        with connecting.translated():
            entries = self._client.xrange(self._key, min=identity, max=identity, count=1)
        return next(_read(entries), None)

    def candidates(self, decision: records.Decision, snapshot: snapshots.Snapshot) -> frozenset[str]:
        """The names that were offered; ``snapshot`` is the one at the decision's position (Histories.at).

        Raises Shortened if they are not on record.
        """
        if snapshot.position != decision.position:
            raise errors.StoreError(
                f"decision {decision.id} was taken at {decision.position}, not at {snapshot.position}"
            )
        if "candidates" in decision.shortened:
            raise errors.Shortened(decision.id, "its candidates and victims were too many for a record")
        return packing.unpack(decision.candidates, self._known.names(snapshot.nodes))

    def recent_candidates(self, decision: records.Decision) -> frozenset[str] | None:
        """As ``candidates``, by the nodes that the follower remembers; None if it has not got so far, or they
        are not on record.

        Only for positions that the follower has passed event by event (Follower.subscribe).
        """
        nodes = self._follower.nodes_at(decision.position)
        if nodes is None or "candidates" in decision.shortened:
            return None
        return packing.unpack(decision.candidates, self._known.names(nodes))

    def _backwards(self, before: str | None) -> Iterator[list[tuple[str, bytes]]]:
        """Ids and records in pages, newest first."""
        newest = "+" if before is None else f"({before}"
        while True:
            with connecting.translated():
                entries = self._client.xrevrange(self._key, max=newest, min="-", count=_SCAN)
            found = list(_raw(entries))
            yield found
            if len(found) < _SCAN:
                return
            newest = f"({found[-1][0]}"

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
                # A record that cannot be written must not keep the next ones from it.
                self.dropped += len(batch)

    def _unhurried(self, batch: Iterable[records.Draft]) -> Iterator[bytes]:
        """The records; after each, whoever answers a verb may go on."""
        for draft in batch:
            yield self._encoded(draft)
            time.sleep(0)

    def _encoded(self, draft: records.Draft) -> bytes:
        given = draft.snapshot
        nodes = self._follower.nodes_at(draft.position) if given is None else given.nodes
        packed = self._known.packed(draft.names, nodes)
        raw, shortened = records.Decision.of(draft, packed).encoded()
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
            # The answers that are still to come must not be taken for those of the next batch.
            self._wire.close()
            raise


def _is_number(text: str) -> bool:
    """Whether the text is half of a stream id: an unsigned number of 64 bits."""
    return text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) < 2**64


def _raw(entries: object) -> Iterator[tuple[str, bytes]]:
    if isinstance(entries, list):
        for identity, fields in entries:
            yield identity.decode(), fields[b"d"]


def _decoded(identity: str, raw: bytes) -> records.Decision:
    return msgspec.structs.replace(_decoder.decode(raw), id=identity)


def _read(entries: object) -> Iterator[records.Decision]:
    return (_decoded(identity, raw) for identity, raw in _raw(entries))
