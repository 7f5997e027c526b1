"""Incarnations: the unbroken histories of one store.

A store that lost acknowledged events (a failover, a cut file, a restored backup, FLUSHALL) must not
continue under the same name: its offsets would change their meaning. A new incarnation is begun instead.
Its id begins with its start time, which orders ids; a follower switches to a later incarnation,
never to an earlier one.
"""

import math
import re
import secrets
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from app.domain import model

_TIMED = re.compile(r"([0-9a-f]{12})-[0-9a-f]+")

_ERA_DIGITS = 39
"""Digits of the longest possible resourceVersion (128 bits)."""


class Watermark(NamedTuple):
    """An entry known to have been in a log: an offset of an incarnation, and when it was appended."""

    incarnation: str
    offset: int
    at_ms: int | None = None
    kept: int | None = None
    """Of a lost entry: the last offset before it that is not lost, as far as known."""

    @property
    def as_args(self) -> tuple[str, int, int | str, int]:
        """The arguments of the store's functions."""
        kept = self.offset - 1 if self.kept is None else min(self.kept, self.offset - 1)
        return self.incarnation, self.offset, "" if self.at_ms is None else self.at_ms, max(0, kept)

    def __str__(self) -> str:
        return f"{self.incarnation}/{self.offset}/{'' if self.at_ms is None else self.at_ms}"


class StoreState(NamedTuple):
    """The metadata of a store."""

    incarnation: str
    """Empty if the store is empty."""
    head: int
    head_ms: int | None
    """When the last entry was appended, by the store's clock; None if the store does not have it."""
    epoch: str
    writer: str
    """Identity of the last writer with that epoch."""
    former: str
    """The incarnation whose loss began this one; empty for the first."""
    lost: Watermark | None
    """An entry that a reader reported and the log no longer holds; None if nothing was reported."""
    recorded_ms: int
    """When a recorder last wrote, by the store's clock; 0 if never."""
    run: str
    """The server's run_id; it changes with a restart or a failover."""
    verified_run: str
    """The run in which a recorder last verified the log; empty if not yet in this incarnation."""

    kubernetes: str
    """The UID of the cluster's kube-system namespace; empty if no recorder has set it yet."""

    @property
    def end(self) -> Watermark:
        """The last entry of the log."""
        return Watermark(self.incarnation, self.head, self.head_ms)

    @property
    def restarted(self) -> bool:
        """The server has restarted since the log was verified: the end of the log may be missing."""
        return self.verified_run not in ("", self.run)

    now_ms: int
    """The store's clock."""


class Followed:
    """The incarnation that a process follows, and the latest entry it has read or written; thread-safe."""

    def __init__(self, incarnation: str) -> None:
        self._changing = threading.Lock()
        """Held to change what is followed. Otherwise an entry of an append that ends after a switch could put
        the former incarnation back. Readers need no lock: each attribute is replaced as a whole."""
        self.seen = Watermark(incarnation, 0)
        """The latest entry that is known here to have been in the log."""
        self.left = self.seen
        """The latest entry known of the incarnation that was followed before."""
        self._doubted: tuple[str, float] = (incarnation, 0)
        """An incarnation, and the offset before which entries may be missing; infinite in doubt."""

    @property
    def in_doubt(self) -> bool:
        """Whether the store may lack the end of the log: it refused the last append for that."""
        return self._doubted == (self.seen.incarnation, math.inf)

    def lacking(self, position: model.Position) -> bool:
        """Whether a snapshot at the position may lack entries, or was read before their loss was recorded."""
        incarnation, offset = self._doubted
        return position.incarnation == incarnation and position.offset < offset

    def doubt(self, incarnation: str) -> None:
        """An append to the incarnation was refused because the store may lack the end of the log."""
        with self._changing:
            if incarnation == self.seen.incarnation:
                self._doubted = (incarnation, math.inf)

    def trust(self, incarnation: str, head: int) -> None:
        """An append that was sent in doubt was accepted; the log then ended at ``head``."""
        with self._changing:
            if self._doubted[0] == incarnation:
                self._doubted = (incarnation, head)

    def note(self, known: Watermark) -> None:
        """Remember an entry of this incarnation."""
        with self._changing:
            seen = self.seen
            if known.incarnation == seen.incarnation and known.offset > seen.offset:
                self.seen = known

    def switch(self, incarnation: str) -> None:
        """Continue in another incarnation, of which nothing was read yet."""
        with self._changing:
            if incarnation != self.seen.incarnation:
                self.left = self.seen if self.seen.offset else self.left
                self.seen = Watermark(incarnation, 0)


def new(known: Iterable[str] = ()) -> str:
    """An id for an incarnation that begins now: later than every known one, even if the clock is behind."""
    began = max([time.time_ns() // 1_000_000, *(_began(one) + 1 for one in known)])
    return f"{began:012x}-{secrets.token_hex(4)}"


def later(one: str, other: str) -> bool:
    """Whether a follower of ``other`` may switch to ``one``.

    Ids without a time cannot be compared: any change then counts as later.
    """
    if not one or one == other:
        return False
    if _TIMED.fullmatch(one) and _TIMED.fullmatch(other):
        return one > other
    return True


def parse_watermark(text: str) -> Watermark | None:
    """Parse ``str(Watermark)``; None if the text is not one."""
    parts = text.split("/")
    if len(parts) != 3 or not parts[0] or not parts[1].isdigit():
        return None
    return Watermark(parts[0], int(parts[1]), int(parts[2]) if parts[2].isdigit() else None)


def parse_loss(text: str, incarnation: str, head: int) -> Watermark | None:
    """Parse the store's note of a loss, ``INCARNATION OFFSET KEPT``; None if it is empty.

    A damaged note only means that entries may be lost behind the head of the incarnation.
    """
    if not text:
        return None
    parts = text.split(" ")
    if len(parts) != 3 or not parts[1].isdigit() or not parts[2].isdigit():
        return Watermark(incarnation, head + 1, kept=head)
    return Watermark(parts[0], int(parts[1]), kept=int(parts[2]))


def epoch(version: str, stored: str) -> str:
    """The epoch of a recorder whose Lease had this resourceVersion when it was acquired.

    ``stored`` is the store's epoch at that time. Its era is the prefix of the version: a restore of etcd
    lowers resourceVersions, and the next era (``topolog adopt``) makes all of them higher again.
    """
    era = _era(stored)
    return f"{era}{version:0>{_ERA_DIGITS}}" if era else version


def next_era(stored: str) -> str:
    """The lowest epoch of the era after that of the stored one."""
    return f"{_era(stored) + 1}{'0' * _ERA_DIGITS}"


def _era(stored: str) -> int:
    return int(stored[:-_ERA_DIGITS] or "0")


def _began(incarnation: str) -> int:
    found = _TIMED.fullmatch(incarnation)
    return int(found.group(1), 16) if found else 0
