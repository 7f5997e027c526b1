"""Reading the log, proven to follow on what the reader already has.

A reader says how far it is and when the entry there was written. The store answers with what lies
behind, or refuses: another incarnation, a lost tail (even one that has grown again), a hole, a
trimmed beginning. It is never silent about them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, NoReturn

import redis

from app.domain import events
from app.store import codecs, connecting, errors, keys

CHUNK = 1000
"""Entries a read: about a millisecond of the server's time."""


class Entry(NamedTuple):
    """One event in the log."""

    offset: int
    at_ms: int
    """When it was appended, by the store's clock: milliseconds since the epoch."""
    event: events.AnyEvent


@dataclass(frozen=True, slots=True)
class Read:
    """The entries behind an offset, as far as one read goes."""

    head: int
    """The last offset of the log when it was read."""
    head_ms: int
    entries: list[Entry]


class Tail:
    """One reader's connection; used by one thread at a time."""

    def __init__(self, client: redis.Redis, names: keys.Keys, incarnation: str) -> None:
        self._wire = connecting.Wire(client)
        self._names = names
        self._incarnation = incarnation
        self._asked: tuple[int, int | None, int] | None = None
        self._packed: connecting.Packed = ()

    def read(
        self, after: int, known_ms: int | None = None, *, limit: int = CHUNK, timeout: float | None = None
    ) -> Read:
        """What lies behind ``after``, whose own entry was written at ``known_ms``.

        Raises Rewound, Gap, Trimmed, Unreadable, or StoreAway after at most one attempt.
        """
        return _understood(self._wire.ask(self._request(after, known_ms, limit), timeout=timeout), after)

    def read_all(
        self, after: int, known_ms: int | None = None, *, timeout: float | None = None
    ) -> Iterator[Read]:
        """Reads up to the head; the next chunk is on its way while the caller works on this one."""
        reply = self._wire.ask(self._request(after, known_ms, CHUNK), timeout=timeout)
        while True:
            ahead = _last(reply, after)
            if ahead is None:
                yield _understood(reply, after)
                return
            self._wire.send(self._request(*ahead, CHUNK))
            try:
                yield _understood(reply, after)
                reply = self._wire.receive(timeout=timeout)
            except BaseException:
                # An answer is still on its way: it must not be taken for the next one's.
                self._wire.close()
                raise
            after = ahead[0]

    def wait(self, after: int, *, milliseconds: int) -> None:
        """Return when something is behind ``after``, or the time is over."""
        packed = self._wire.pack(
            "XREAD", "COUNT", 1, "BLOCK", max(1, milliseconds), "STREAMS", self._names.log, f"{after}-0"
        )
        self._wire.ask(packed, timeout=milliseconds / 1000 + 1.0)

    def close(self) -> None:
        """Give the connection up."""
        self._wire.close()

    def _request(self, after: int, known_ms: int | None, limit: int) -> connecting.Packed:
        # A verb asks "anything new?" again and again: the question is packed once for each offset.
        if self._asked != (after, known_ms, limit):
            self._packed = self._wire.pack(
                "FCALL_RO",
                "topolog_read",
                2,
                self._names.log,
                self._names.meta,
                self._incarnation,
                after,
                "" if known_ms is None or after == 0 else known_ms,
                limit,
            )
            self._asked = (after, known_ms, limit)
        return self._packed


def _last(reply: connecting.Reply, after: int) -> tuple[int, int] | None:
    """Where the entries of a reply end, as (offset, ms), if the log goes on behind it."""
    if isinstance(reply, list) and len(reply) > 3 and reply[0] == b"OK":
        last: int = after + (len(reply) - 3) // 2
        if last < reply[1]:
            return last, reply[-2]
    return None


def _understood(reply: connecting.Reply, after: int) -> Read:
    if not isinstance(reply, list):
        raise errors.StoreError(f"the store answered topolog_read with {reply!r}")
    if reply[0] != b"OK":
        refuse(reply)
    decode = codecs.decode
    entries = list(map(Entry, count(after + 1), reply[3::2], [decode(payload) for payload in reply[4::2]]))
    return Read(head=reply[1], head_ms=reply[2], entries=entries)


def refuse(reply: list[bytes | int]) -> NoReturn:
    """Raise what a refusing reply of a function means."""
    words = [word.decode() if isinstance(word, bytes) else str(word) for word in reply]
    match words:
        case ["REWOUND", incarnation, head]:
            found = f"incarnation {incarnation}, head {head}" if incarnation else "no log"
            raise errors.Rewound(
                f"the store holds {found}, which is not what was known here: events were lost or the store"
                " was replaced; start this process again to read the new history"
            )
        case ["TRIMMED", oldest]:
            raise errors.Trimmed(int(oldest))
        case ["GAP", missing]:
            raise errors.Gap(f"offset {missing} is missing from the log: the store is damaged")
        case ["CONFLICT", *subjects]:
            raise errors.Conflict(tuple(subjects))
        case ["CEILING", key, found, ceiling]:
            raise errors.CeilingReached(key, int(found), int(ceiling))
        case ["FENCED", epoch]:
            raise errors.Fenced(epoch)
        case _:
            raise errors.StoreError(f"the store refused: {' '.join(words)}")
