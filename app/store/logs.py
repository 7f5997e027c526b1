"""The log: one way to write, which checks its guard, and reads that notice lost history.

A call of ``append`` carries a session and a sequence number; the store remembers the last call of
each session and what came of it. That is why a call whose answer was lost can be repeated: it is
carried out once. Several sessions, each with a connection, let threads append side by side.
"""

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import redis

from app.domain import events, model
from app.store import (
    batches,
    codecs,
    connecting,
    errors,
    incarnations,
    keys,
    lineages,
    retrying,
    sessions,
    syncing,
    tailing,
)

T = TypeVar("T")

Entry = tailing.Entry

MOST_EVENTS = batches.MOST_EVENTS
Guard = batches.Guard
Batch = batches.Batch
Appended = batches.Appended

_SESSIONS = 32
"""Threads that can append at the same time; connections are opened when first needed."""


NO_GUARD = Guard()


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
        """``timeout``: seconds until a call gives up with StoreAway, its repetitions included.

        ``synced``: a placement that may not be on the server's disk raises StoreAway.
        """
        self._client = client
        self._names = names
        self._timeout = timeout
        self._synced = synced
        self.seen = incarnations.Known(incarnation, 0)
        """The latest entry that is known here to have been in the log."""
        self.left = self.seen
        """The same, of the incarnation that was followed before."""
        self._sessions: queue.LifoQueue[sessions.Session] = queue.LifoQueue()
        self._tails: queue.LifoQueue[tailing.Tail] = queue.LifoQueue()
        for _ in range(_SESSIONS):
            # The last one used is the first one taken again: few connections, kept busy.
            self._sessions.put(sessions.Session(client, names))
            self._tails.put(self.tail())

    def append(self, batch: Batch, guard: Guard = NO_GUARD, *, timeout: float | None = None) -> Appended:
        """Append the batch if the guard holds.

        Raises Conflict, CeilingReached, Fenced or Rewound, and then nothing was changed; StoreAway if
        no answer came within the timeout, and then it is not known whether it was appended.
        """
        arguments = batches.arguments(batch, guard)
        patience = retrying.Patience(self._timeout if timeout is None else timeout)
        with _borrowed(self._sessions, patience.left) as session:
            session.sequence += 1
            seen = self.seen
            if guard.incarnation not in ("", seen.incarnation):
                raise errors.Rewound(
                    f"decided in incarnation {guard.incarnation}, but the log is {seen.incarnation} now:"
                    " decide again"
                )
            packed = session.wire.pack(
                *("FCALL", keys.function("append"), 5),
                *(self._names.log, self._names.meta, self._names.versions, self._names.counts, session.key),
                *(seen.incarnation, seen.offset, "" if seen.at_ms is None else seen.at_ms, session.sequence),
                *arguments,
            )
            reply = session.ask(packed, timeout=patience.left)
            if not isinstance(reply, list) or reply[0] not in (b"OK", b"REPEATED"):
                tailing.refuse(reply if isinstance(reply, list) else [str(reply).encode()])
            if self._synced and syncing.places(batch.events):
                syncing.check(session.wire, patience.left)
        appended = Appended(first=reply[1], last=reply[2], repeated=reply[0] == b"REPEATED", at_ms=reply[3])
        if appended.last >= appended.first:
            self.note(incarnations.Known(seen.incarnation, appended.last, appended.at_ms))
        return appended

    def read(self, after: int, *, limit: int = tailing.CHUNK) -> list[Entry]:
        """The entries behind an offset, oldest first; raises Rewound, Gap, Trimmed or StoreAway."""
        patience = retrying.Patience(self._timeout)
        with _borrowed(self._tails, self._timeout) as tail:
            tail.incarnation = self.incarnation
            while True:
                try:
                    return tail.read(after, limit=limit, timeout=patience.attempt).entries
                except errors.StoreAway:
                    if not patience.again():
                        raise

    def prove(self, offset: int, at_ms: int) -> None:
        """Return if the log goes on from the entry at the offset, appended then.

        Raises Rewound if it is another entry, Trimmed if it is no longer there, Gap or StoreAway.
        """
        patience = retrying.Patience(self._timeout)
        with _borrowed(self._tails, self._timeout) as tail:
            tail.incarnation = self.incarnation
            while True:
                try:
                    tail.read(offset, at_ms, limit=1, timeout=patience.attempt)
                    return
                except errors.StoreAway:
                    if not patience.again():
                        raise

    def read_all(self, after: int, known_ms: int | None = None) -> Iterator[tailing.Read]:
        """Reads from behind an offset up to the head, many entries at a time; raises as ``read`` does."""
        with _borrowed(self._tails, self._timeout) as tail:
            tail.incarnation = self.incarnation
            yield from tail.read_all(after, known_ms, timeout=self._timeout)

    def raws(self, after: int, until: int) -> list[tailing.Raw]:
        """The entries behind one offset up to another, none missing, as they are; raises Gap."""
        raws = [
            tailing.Raw(
                _offset_of(identity),
                int(fields[b"t"]),
                msgspec.Raw(fields[b"e"]),
                fields.get(b"w", b"").decode(),
            )
            for identity, fields in self._range(f"{after + 1}-0", f"{until}-0", until - after)
        ]
        for expected, raw in enumerate(raws, after + 1):
            if raw.offset != expected:
                raise errors.Gap(f"offset {expected} is missing from the log: the store is damaged")
        if len(raws) != until - after:
            raise errors.Gap(f"offset {after + len(raws) + 1} is missing from the log: the store is damaged")
        return raws

    def trim(self, keep: int, checkpoint: int, *, reader_timeout: float) -> int:
        """Remove the entries below ``keep``, which a checkpoint at or after it lets be done without.

        Returns how many were removed. Raises Held while a reader that was heard of within the timeout
        (seconds) has not read so far; Uncovered if there is no such checkpoint; Rewound.
        """
        with _borrowed(self._sessions, self._timeout) as session:
            packed = session.wire.pack(
                *("FCALL", keys.function("trim"), 4),
                *(self._names.log, self._names.meta, self._names.checkpoints, self._names.readers),
                *(self.incarnation, keep, checkpoint, int(reader_timeout * 1000)),
            )
            # Repeating it removes nothing more.
            reply = session.ask(packed, timeout=self._timeout)
        if not isinstance(reply, list) or reply[0] != b"OK":
            tailing.refuse(reply if isinstance(reply, list) else [str(reply).encode()])
        removed: int = reply[1]
        return removed

    def tail(self) -> tailing.Tail:
        """A connection for one reader that reads often."""
        return tailing.Tail(self._client, self._names, self.incarnation)

    def head(self) -> model.Position:
        """The last position written."""
        with connecting.translated():
            head = self._client.hget(self._names.meta, keys.HEAD)
        return model.Position(self.incarnation, int(head or 0))

    def marks(self) -> dict[str, str]:
        """The checkpoints that were appended with batches, such as ``rv:pods``."""
        return {
            name: value for name, value in self._hash(self._names.meta).items() if name not in keys.RESERVED
        }

    def counts(self) -> dict[str, int]:
        """The counts as materialised in the store, without zeros."""
        with connecting.translated():
            live = connecting.text(self._client.hget(self._names.meta, "counts") or b"")
        if live not in ("", self._names.counts):
            raise errors.SchemaMismatch(f"the counts are in {live}: use a newer Topolog")
        return {key: int(count) for key, count in self._hash(self._names.counts).items()}

    def versions(self) -> dict[str, int]:
        """Subject -> offset of its latest event, as materialised in the store."""
        return {subject: int(version) for subject, version in self._hash(self._names.versions).items()}

    def epochs(self, after: int = 0, *, limit: int = tailing.CHUNK) -> list[tuple[int, str]]:
        """(offset, epoch) of the entries behind an offset; the epoch is empty for who needs none."""
        entries = self._range(f"{after + 1}-0", "+", limit)
        return [(_offset_of(i), connecting.text(fields.get(b"w", b""))) for i, fields in entries]

    def time_of(self, offset: int) -> int | None:
        """When the entry was appended (milliseconds); None if the log does not hold it."""
        entries = self._range(f"{offset}-0", f"{offset}-0", 1)
        return int(entries[0][1][b"t"]) if entries else None

    def oldest(self) -> int:
        """The first offset that the log still holds; the one to come if it is empty."""
        entries = self._range("-", "+", 1)
        return _offset_of(entries[0][0]) if entries else self.head().offset + 1

    def _range(self, first: str, last: str, count: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
        with connecting.translated():
            found: Any = self._client.xrange(self._names.log, min=first, max=last, count=count)
        entries: list[tuple[bytes, dict[bytes, bytes]]] = found
        return entries

    # -- incarnations ------------------------------------------------------------------------

    @property
    def cluster(self) -> str:
        """The name of the cluster whose log it is."""
        return self._names.cluster

    @property
    def incarnation(self) -> str:
        """The history that is followed here."""
        return self.seen.incarnation

    def note(self, known: incarnations.Known) -> None:
        """Remember that this was in the log: if it no longer is, the next append says Rewound."""
        seen = self.seen
        if known.incarnation == seen.incarnation and known.offset > seen.offset:
            self.seen = known

    def follow(self, incarnation: str) -> None:
        """Go on in another incarnation; nothing is known of it yet."""
        if incarnation != self.incarnation:
            self.left = self.seen if self.seen.offset else self.left
            self.seen = incarnations.Known(incarnation, 0)

    def standing(self) -> incarnations.Standing:
        """What the store says about itself; asks nothing of its functions. Raises Unbegun or StoreAway."""
        with connecting.translated():
            now: Any = self._client.time()
            about: Any = self._client.info("server")
        meta = self._hash(self._names.meta)
        incarnation, head = meta.get("incarnation", ""), int(meta.get(keys.HEAD, "0"))
        if incarnation != self.incarnation:
            lineages.prove(self._client, self._names, incarnation)
        return incarnations.Standing(
            incarnation=incarnation,
            head=head,
            epoch=meta.get("epoch", ""),
            writer=meta.get("writer", ""),
            former=meta.get("former", ""),
            lost=incarnations.read_lost(meta.get("lost", ""), incarnation, head),
            recorded_ms=int(meta.get("recorded", "0")),
            run=connecting.text(about["run_id"]),
            vouched=meta.get(keys.RUN, ""),
            kubernetes=meta.get(keys.KUBERNETES, ""),
            now_ms=1000 * int(now[0]) + int(now[1]) // 1000,
        )

    def doubt(self, known: incarnations.Known) -> bool:
        """Tell the store what is known here; true if the log holds it.

        Otherwise nobody appends or reads any more, whatever they know themselves, until a recorder
        has begun a new incarnation.
        """
        reply = self._call("doubt", (self._names.log, self._names.meta), known.told)
        return reply[0] == b"OK"

    def rewind(self, event: events.StoreRewound, incarnation: str, *, found: str, guard: Guard) -> bool:
        """Begin an incarnation with this event, if the store's is still ``found`` (empty: it is empty).

        Whatever the log holds stays in it; checkpoints are forgotten. False if the store's incarnation
        is another one by now. Raises Fenced or StoreAway.
        """
        names = self._names
        reply = self._call(
            "rewind",
            (names.log, names.meta, names.versions, names.counts),
            (
                *(found, incarnation, event.from_incarnation, guard.epoch, guard.writer),
                *(codecs.encode(event), event.subject),
            ),
        )
        if reply[0] == b"CHANGED":
            # A call whose answer was lost is made again: then the present one is ours.
            return reply[1] == incarnation.encode()
        if reply[0] != b"OK":
            tailing.refuse(reply)
        return True

    def _call(
        self, function: str, names: Sequence[str], arguments: Sequence[str | bytes | int]
    ) -> list[bytes | int]:
        """Call a function that may be called twice."""
        with _borrowed(self._sessions, self._timeout) as session:
            packed = session.wire.pack("FCALL", keys.function(function), len(names), *names, *arguments)
            reply = session.ask(packed, timeout=self._timeout)
        if not isinstance(reply, list):
            raise errors.StoreError(f"the store answered to {function} with {reply!r}")
        if reply[0] == b"SCHEMA":
            tailing.refuse(reply)
        return reply

    def close(self) -> None:
        """Close the connections that are idle."""
        for pool in (self._sessions, self._tails):
            with pool.mutex:
                for holder in pool.queue:
                    (holder.wire if isinstance(holder, sessions.Session) else holder).close()

    def _hash(self, key: str) -> dict[str, str]:
        with connecting.translated():
            fields = self._client.hgetall(key)
        return {connecting.text(field): connecting.text(value) for field, value in fields.items()}


def _offset_of(identity: bytes) -> int:
    return int(identity.partition(b"-")[0])


@contextmanager
def _borrowed(pool: "queue.LifoQueue[T]", seconds: float) -> Iterator[T]:
    """One of the pool, for as long as it takes; raises StoreAway if none is free within the seconds."""
    try:
        one = pool.get(timeout=max(0.0, seconds))
    except queue.Empty:
        raise errors.StoreAway(f"all connections to the store are in use for {seconds:.1f} s") from None
    try:
        yield one
    finally:
        pool.put(one)
