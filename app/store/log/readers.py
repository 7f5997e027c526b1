"""Reads the log and verifies that it continues the entries already read.

A request contains the reader's offset and the time of the entry there. The store replies with the entries
behind it, or with an error: another incarnation, a lost tail (even if it has grown again), a hole, a
trimmed start.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, NoReturn

import msgspec
import redis

from app import telemetry
from app.domain import events
from app.store import errors, keys
from app.store.log import codecs
from app.store.server import connections

CHUNK = 1000
"""Entries per read: about a millisecond of the server's time."""

_UNHARMED = [None, b"%d" % keys.SCHEMA]
"""No loss is noted, and the schema is this one."""
_SECONDS = telemetry.metrics.STORE_SECONDS.labels("read")


class Entry(NamedTuple):
    """One event in the log."""

    offset: int
    at_ms: int
    """When it was appended, by the store's clock: milliseconds since the epoch."""
    event: events.AnyEvent


class Raw(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry as stored in the log and in the archive; the event is not decoded."""

    offset: int
    t: int
    """When it was appended: milliseconds since the epoch, by the store's clock."""
    e: msgspec.Raw
    """The event, as JSON."""
    w: str = ""
    """The epoch of the recorder that appended it; empty for other writers."""


@dataclass(frozen=True, slots=True)
class Read:
    """The result of one read: entries behind an offset."""

    head: int
    """The last offset of the log when it was read."""
    head_ms: int
    after: int
    times: Sequence[int]
    """When the entries at ``after + 1``, ``after + 2`` ... were appended."""
    payloads: Sequence[bytes]
    """The events, encoded."""

    @property
    def last(self) -> int:
        """The offset of the last entry; ``after`` if empty."""
        return self.after + len(self.payloads)

    @property
    def run(self) -> list[events.AnyEvent]:
        """The events for a fold of all of them at once (codecs.decode_run); raises Unreadable."""
        return codecs.decode_run(self.payloads)

    @property
    def events(self) -> list[events.AnyEvent]:
        """All events; raises Unreadable."""
        return codecs.decode_all(self.payloads)

    @property
    def entries(self) -> list[Entry]:
        """All entries; raises Unreadable."""
        return list(map(Entry, count(self.after + 1), self.times, self.events))

    def one_by_one(self) -> Iterator[tuple[Entry, int]]:
        """Each entry and the bytes of its event, decoded when it is its turn; raises Unreadable."""
        for offset, at_ms, payload in zip(count(self.after + 1), self.times, self.payloads, strict=False):
            yield Entry(offset, at_ms, codecs.decode(payload)), len(payload)


class LogReader:
    """One reader's connection; used by one thread at a time."""

    def __init__(self, client: redis.Redis, names: keys.Keys, incarnation: str) -> None:
        self._wire = connections.Wire(client)
        self._names = names
        self.incarnation = incarnation
        """The incarnation that is read; may be changed between two reads."""
        self._asked: tuple[str, int, int | None, int] | None = None
        self._packed: connections.Packed = ()

    def read(
        self, after: int, known_ms: int | None = None, *, limit: int = CHUNK, timeout: float | None = None
    ) -> Read:
        """The entries behind ``after``, whose own entry was appended at ``known_ms``.

        Raises Rewound, Gap, Trimmed, Unreadable, or StoreAway after at most one attempt.
        """
        self._wire.leave_former_server()
        return self._verified(after, known_ms, limit, timeout)

    def read_past(self, after: int, *, limit: int = CHUNK, timeout: float | None = None) -> Read:
        """As ``read``, for a part of the server's time: a function converts each entry to Lua and back.

        What the plain commands cannot prove is read again by the function, whose reply names the problem.
        ``timeout`` bounds the wait for each reply.
        """
        self._wire.leave_former_server()
        began = time.perf_counter()
        try:
            self._wire.send(self._plain(after, limit), timeout=timeout)
            found = self._received(after, limit, timeout)
        except BaseException:
            # A reply may still arrive: it must not be used for the next request.
            self._wire.close()
            raise
        finally:
            _SECONDS.observe(time.perf_counter() - began)
        return found or self._verified(after, None, limit, timeout)

    def ask(self, after: int, known_ms: int | None = None) -> bool:
        """Send the first request of ``read_all`` without waiting; false if the connection is not open."""
        self._wire.leave_former_server()
        if self._wire.open:
            self._wire.send(self._request(after, known_ms, CHUNK))
        return self._wire.open

    def read_all(
        self,
        after: int,
        known_ms: int | None = None,
        *,
        timeout: float | None = None,
        asked: bool = False,
    ) -> Generator[Read, None, None]:
        """Reads up to the head: the next is requested while the caller works on one.

        Close it before the connection is used again: a reply may be outstanding. ``asked``: the first request
        was sent by ``ask``.
        """
        if asked:
            first = _understood(self._wire.receive(timeout=timeout), after)
        else:
            first = self.read(after, known_ms, timeout=timeout)
        yield first
        if first.last < first.head:
            yield from self._rest(first.last, timeout)

    def _rest(self, after: int, timeout: float | None) -> Iterator[Read]:
        # As read_past: what the function has checked remains valid while the connection is open.
        try:
            self._wire.send(self._plain(after, CHUNK))
            while True:
                read = self._received(after, CHUNK, timeout) or self._verified(after, None, CHUNK, timeout)
                after = read.last
                if after < read.head:
                    self._wire.send(self._plain(after, CHUNK))
                yield read
                if after == read.head:
                    return
        except BaseException:
            # A reply may still arrive: it must not be used for the next request.
            self._wire.close()
            raise

    def _plain(self, after: int, limit: int) -> connections.Packed:
        # The metadata second: if it shows this incarnation, and no loss, then the entries were read in it.
        names, pack = self._names, self._wire.pack
        entries = pack("XRANGE", names.log, after + 1, after + limit, "COUNT", limit)
        return (*entries, *pack("HMGET", names.meta, "incarnation", keys.HEAD, "at", "lost", "schema"))

    def _received(self, after: int, limit: int, timeout: float | None) -> Read | None:
        """The reply to ``_plain``; None if it does not prove that it has what the function would reply."""
        entries = self._wire.receive(timeout=timeout)
        state = self._wire.receive(timeout=timeout)
        if not isinstance(state, list) or not isinstance(entries, list):
            raise errors.StoreError(f"the store answered a read with {entries!r}, {state!r}")
        incarnation, stored_head, at, *others = state
        head = keys.number(stored_head)
        here = connections.text(incarnation or b"") == self.incarnation and others == _UNHARMED
        if not here or not _continued(entries, after, min(limit, head - after)):
            return None
        fields = [fields for _, fields in entries]
        return Read(head, keys.number(at), after, _times(fields), [one[3] for one in fields])

    def _verified(self, after: int, known_ms: int | None, limit: int, timeout: float | None) -> Read:
        """The reply of the function."""
        began = time.perf_counter()
        try:
            reply = self._wire.ask(self._request(after, known_ms, limit), timeout=timeout)
        finally:
            _SECONDS.observe(time.perf_counter() - began)
        return _understood(reply, after)

    def wait_for_entries(self, after: int, known_ms: int | None = None, *, milliseconds: int) -> Read:
        """As ``read``, but waits until an entry is behind ``after``, or the time is over."""
        waiting = self._wire.pack(
            "XREAD", "COUNT", 1, "BLOCK", max(1, milliseconds), "STREAMS", self._names.log, f"{after}-0"
        )
        self._wire.leave_former_server()
        try:
            self._wire.send((*waiting, *self._request(after, known_ms, CHUNK)))
            self._wire.receive(timeout=milliseconds / 1000 + 1.0)
            return _understood(self._wire.receive(), after)
        except BaseException:
            # A reply may still arrive: it must not be used for the next request.
            self._wire.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def _request(self, after: int, known_ms: int | None, limit: int) -> connections.Packed:
        # Verbs repeat the same request often: it is packed once per offset.
        asked = (self.incarnation, after, known_ms, limit)
        if self._asked != asked:
            self._packed = self._wire.pack(
                "FCALL_RO",
                keys.function("read"),
                2,
                self._names.log,
                self._names.meta,
                self.incarnation,
                after,
                "" if known_ms is None or after == 0 else known_ms,
                limit,
            )
            self._asked = asked
        return self._packed


def _continued(entries: Sequence[tuple[bytes, object]], after: int, expected: int) -> bool:
    """Whether the entries are the expected number of those behind ``after``."""
    if len(entries) != expected:
        return False
    return not entries or (
        entries[0][0] == b"%d-0" % (after + 1) and entries[-1][0] == b"%d-0" % (after + expected)
    )


def _times(fields: list[list[bytes]]) -> list[int]:
    """When the entries were appended."""
    try:
        return [int(one[1]) for one in fields]
    except ValueError:
        return [keys.number(one[1]) for one in fields]


def _understood(reply: connections.Reply, after: int) -> Read:
    if not isinstance(reply, list):
        raise errors.StoreError(f"the store answered to a read with {reply!r}")
    if reply[0] != b"OK":
        refuse(reply)
    return Read(reply[1], reply[2], after, reply[3::2], reply[4::2])


def refuse(reply: list[bytes | int]) -> NoReturn:
    """Raise the error for a refusal of a function."""
    words = [connections.text(word) if isinstance(word, bytes) else str(word) for word in reply]
    match words:
        case ["REWOUND", incarnation, head]:
            found = f"incarnation {incarnation}, head {head}" if incarnation else "no log"
            raise errors.Rewound(
                f"the store holds {found}, which differs from what was read: events were lost, or the server"
                " was restarted or replaced; the recorder checks it"
            )
        case ["TRIMMED", oldest]:
            raise errors.Trimmed(int(oldest))
        case ["GAP", missing]:
            raise errors.Gap(f"offset {missing} is missing from the log: the store is damaged")
        case ["CONFLICT", *subjects]:
            raise errors.Conflict(tuple(subjects))
        case ["CEILING", key, found, ceiling]:
            raise errors.CeilingReached(key, int(found), int(ceiling))
        case ["FENCED", epoch, writer]:
            raise errors.Fenced(epoch, writer)
        case ["HELD", reader, offset]:
            raise errors.Held(reader, int(offset))
        case ["SCHEMA", found] if keys.number(found) == keys.SCHEMA:
            raise errors.rejected_counts()
        case ["SCHEMA", found]:
            raise errors.mismatch(keys.number(found), keys.SCHEMA)
        case ["UNCOVERED", offset]:
            raise errors.Uncovered(
                f"there is no checkpoint at offset {offset}: nothing before it may be trimmed"
            )
        case _:
            raise errors.StoreError(f"the store refused: {' '.join(words)}")
