"""What a reader remembers of a log, to say afterwards which part of it was lost.

Each entry has an offset and the time at which it was appended. A log that lost its end and has
grown again has the same offsets with other times: the first of them is where the loss began.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from app.store import errors, incarnations, tailing

_STRETCHES = 64
_LONG = 1000
"""Entries from which on a stretch is not made longer."""


class Memory:
    """The times of the entries read last: 64 stretches of them, of a thousand or more if they join."""

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

    def divergence(self, time_of: Callable[[int], int | None]) -> int | None:
        """The last offset remembered whose entry is still the same; ``time_of`` asks the log.

        If not even the first one is: the offset before it. None if nothing is remembered.
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


def proven(reads: Iterator[tailing.Read], known: incarnations.Known) -> Iterator[tailing.Read]:
    """The reads, as long as they hold what is known to have been in the log before them; raises Rewound.

    A process that appended and has not read that back would else read on in a log that has lost it.
    """
    for read in reads:
        at = known.offset - read.after - 1
        other = 0 <= at < len(read.times) and known.at_ms not in (None, read.times[at])
        if read.head < known.offset or other:
            raise errors.Rewound(
                f"offset {known.offset} was in the log and is not any more: events were lost; the recorder"
                " begins a new incarnation"
            )
        yield read
