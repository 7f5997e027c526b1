"""Detects at which offset a log lost entries.

Each entry has an offset and the time at which it was appended. A log that lost its end and has
grown again has the same offsets with other times: the loss began at the first of them.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from app.store import errors
from app.store.log import incarnations, readers

_STRETCHES = 64
_LONG = 1000
"""Entries after which a stretch is not extended."""


class TimestampHistory:
    """The times of the latest entries read: 64 stretches, of a thousand entries or more if contiguous."""

    def __init__(self) -> None:
        self._stretches: deque[tuple[int, list[int]]] = deque(maxlen=_STRETCHES)

    def add(self, after: int, times: Sequence[int]) -> None:
        """Remember when the entries behind ``after`` were appended (milliseconds)."""
        if not times:
            return
        if self._stretches:
            begin, last = self._stretches[-1]
            if begin + len(last) == after and len(last) < _LONG:
                last.extend(times)
                return
        self._stretches.append((after, list(times)))

    def first_divergence(self, time_of: Callable[[int], int | None]) -> int | None:
        """The last offset remembered whose entry is unchanged; ``time_of`` reads the log.

        If even the first one differs, the offset before it. None if nothing is remembered.
        """
        if not self._stretches:
            return None
        first = self._stretches[0][0] + 1
        after, times = self._stretches[-1]

        def differs(offset: int) -> bool:
            known = self._time(offset)
            return known is not None and time_of(offset) != known

        remembered = range(first, after + len(times) + 1)
        return first + bisect_left(remembered, True, key=differs) - 1

    def _time(self, offset: int) -> int | None:
        for after, times in reversed(self._stretches):
            if after < offset <= after + len(times):
                return times[offset - after - 1]
        return None


def proven(reads: Iterator[readers.Read], known: incarnations.Watermark) -> Iterator[readers.Read]:
    """Yield the reads while they contain the entry known to have been in the log; raises Rewound.

    Otherwise a process that appended, and has not read that back, would continue in a log that lost it.
    """
    for read in reads:
        at = known.offset - read.after - 1
        other = 0 <= at < len(read.times) and known.at_ms not in (None, read.times[at])
        if read.head < known.offset or other:
            raise errors.Rewound(
                f"offset {known.offset} was in the log and no longer is: events were lost; the recorder"
                " begins a new incarnation"
            )
        yield read
