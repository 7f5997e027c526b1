"""Unbroken histories of one store, and what ends one.

A store that lost events it had acknowledged (a failover, a cut file, a restored backup, FLUSHALL)
must not go on under the same name: offsets would come to mean something else. So it begins a new
incarnation. Its id starts with the time at which it began, so that of two ids one can tell which
is the later; a follower goes along to a later one, and never back to an earlier one.
"""

import re
import secrets
import time
from collections.abc import Iterable
from typing import NamedTuple

_TIMED = re.compile(r"([0-9a-f]{12})-[0-9a-f]+")

_ERA_DIGITS = 39
"""Digits of the longest resourceVersion there may be (128 bits)."""


class Known(NamedTuple):
    """Something that is known to have been in a log: an offset of an incarnation, and when it was written."""

    incarnation: str
    offset: int
    at_ms: int | None = None
    kept: int | None = None
    """Of something that is lost: the last offset before it that is not, as far as anybody knows."""

    @property
    def told(self) -> tuple[str, int, int | str, int]:
        """The same for the store's functions."""
        kept = self.offset - 1 if self.kept is None else min(self.kept, self.offset - 1)
        return self.incarnation, self.offset, "" if self.at_ms is None else self.at_ms, max(0, kept)

    def __str__(self) -> str:
        return f"{self.incarnation}/{self.offset}/{'' if self.at_ms is None else self.at_ms}"


class Standing(NamedTuple):
    """What a store says about itself."""

    incarnation: str
    """Empty if the store is."""
    head: int
    epoch: str
    writer: str
    """Who wrote last with that epoch."""
    former: str
    """The incarnation before this one; empty if there was none."""
    lost: Known | None
    """What somebody knew of and the log no longer holds; None while all is well."""
    recorded_ms: int
    """When a recorder last wrote, by the store's clock; 0 if never."""
    run: str
    """The server's run_id: another one after a restart or a failover."""
    vouched: str
    """The run in which a recorder last vouched for the log; empty if none has since the incarnation began."""

    kubernetes: str
    """The UID of the cluster's kube-system namespace; empty if no recorder has said it yet."""

    @property
    def restarted(self) -> bool:
        """The server is not the one that was vouched for: it may lack the end of the log."""
        return self.vouched not in ("", self.run)

    now_ms: int
    """The store's clock."""


def new(known: Iterable[str] = ()) -> str:
    """An id for an incarnation that begins now: later than every known one, whatever the clock says."""
    began = max([time.time_ns() // 1_000_000, *(_began(one) + 1 for one in known)])
    return f"{began:012x}-{secrets.token_hex(4)}"


def later(one: str, other: str) -> bool:
    """Whether a follower of ``other`` may go along to ``one``.

    Ids that do not say when they began cannot be compared: then a change is taken for progress.
    """
    if not one or one == other:
        return False
    if _TIMED.fullmatch(one) and _TIMED.fullmatch(other):
        return one > other
    return True


def read_known(text: str) -> Known | None:
    """What ``str(Known)`` was made from; None if it is none."""
    parts = text.split("/")
    if len(parts) != 3 or not parts[0] or not parts[1].isdigit():
        return None
    return Known(parts[0], int(parts[1]), int(parts[2]) if parts[2].isdigit() else None)


def read_lost(text: str, incarnation: str, head: int) -> Known | None:
    """The store's own note: ``INCARNATION OFFSET KEPT``; None if it holds none.

    Of a damaged note all that is known is that entries may be lost behind the head of the incarnation.
    """
    if not text:
        return None
    parts = text.split(" ")
    if len(parts) != 3 or not parts[1].isdigit() or not parts[2].isdigit():
        return Known(incarnation, head + 1, kept=head)
    return Known(parts[0], int(parts[1]), kept=int(parts[2]))


def epoch(version: str, stored: str) -> str:
    """The epoch of a recorder whose Lease had this resourceVersion when it was acquired.

    ``stored`` is the store's epoch then. Its era goes before the version: a restore of etcd takes
    resourceVersions back, and the next era (``topolog adopt``) makes all of them higher again.
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
