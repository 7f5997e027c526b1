"""The events that arrive, for streams: a bounded ring of the latest ones, and places for its readers.

A stream reads from the ring at its own pace, and from the log what is no longer there. So a slow reader costs
no memory, and misses nothing that the log still has.
"""

import threading
from collections import Counter, deque

from app.api import errors
from app.domain import snapshots
from app.store.log import readers
from app.store.state import followers, histories

STREAMS = 32
EACH = 8
"""Streams of one identity at most."""
_RING = 1000
_READ = 500


class Arrivals:
    """The latest events of one follower, without one missing between them; thread-safe."""

    def __init__(self, follower: followers.Follower, past: histories.Histories) -> None:
        self._follower = follower
        self._past = past
        self._ring: deque[readers.Entry] = deque(maxlen=_RING)
        self._incarnation = ""
        self._arrived = threading.Condition()
        self._readers: Counter[str] = Counter()
        self._subscribed = False

    def enter(self, identity: str) -> None:
        """Take the place of one stream. Raises Problem 429."""
        with self._arrived:
            if self._readers.total() >= STREAMS or self._readers[identity] >= EACH:
                raise errors.Problem(
                    429,
                    "TooManyRequests",
                    f"{STREAMS} streams, and {EACH} of one identity, are open at most: retry later",
                )
            self._readers[identity] += 1
            if not self._subscribed:
                self._subscribed = True
                self._follower.subscribe(self._add)

    def leave(self, identity: str) -> None:
        """Release the place."""
        with self._arrived:
            self._readers[identity] -= 1

    def wait(self, incarnation: str, offset: int, seconds: float) -> snapshots.Snapshot:
        """The latest snapshot, after waiting for one that is not at this position."""
        with self._arrived:
            self._arrived.wait_for(lambda: not self._at(incarnation, offset), seconds)
        return self._follower.snapshot

    def after(self, incarnation: str, offset: int, last: int) -> list[readers.Entry]:
        """Entries behind the offset until ``last``, a bounded number. Raises Trimmed or StoreAway."""
        with self._arrived:
            if self._incarnation == incarnation and self._ring and self._ring[0].offset <= offset + 1:
                held = [entry for entry in self._ring if offset < entry.offset <= last]
                if held:
                    return held
        return self._past.entries(offset + 1, last, limit=_READ)

    def _at(self, incarnation: str, offset: int) -> bool:
        position = self._follower.snapshot.position
        return position.incarnation == incarnation and position.offset == offset

    def _add(self, _: snapshots.Snapshot, after: snapshots.Snapshot, entry: readers.Entry) -> None:
        incarnation = after.position.incarnation
        with self._arrived:
            # A follower that was behind a trimmed log continues from a checkpoint: `after` needs one run.
            jumped = self._ring and entry.offset != self._ring[-1].offset + 1
            if jumped or incarnation != self._incarnation:
                self._ring.clear()
                self._incarnation = incarnation
            self._ring.append(entry)
            self._arrived.notify_all()
