"""The subscribers of a follower: each event is delivered once, in order, from a bounded queue, in runs."""

import functools
from collections import deque
from collections.abc import Callable

from app.domain import snapshots
from app.store.log import readers

Callback = Callable[[snapshots.Snapshot, snapshots.Snapshot, readers.Entry], None]
"""Called with the snapshots before and after an event, and its entry."""
Ended = Callable[[], None]
"""Called after a run: the events that were pending when their delivery began."""

MAX_PENDING = 1000
"""Events that may be pending, give or take one read: each keeps two snapshots in memory."""


class Subscribers:
    """The callbacks of one follower, and their pending events; notified by one thread."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()
        self._ended: tuple[Ended, ...] = ()
        self._pending: deque[tuple[snapshots.Snapshot, snapshots.Snapshot, readers.Entry]] = deque()

    def __bool__(self) -> bool:
        """Whether there are subscribers."""
        return bool(self._callbacks)

    def __len__(self) -> int:
        """How many events are pending."""
        return len(self._pending)

    @property
    def full(self) -> bool:
        """So many events are pending that no more must be read from the log."""
        return len(self._pending) >= MAX_PENDING

    def add(self, callback: Callback, ended: Ended | None = None) -> None:
        """Call it for each event from now on, and ``ended`` after each run of them."""
        self._callbacks = (*self._callbacks, callback)
        if ended is not None:
            self._ended = (*self._ended, ended)

    def put(self, before: snapshots.Snapshot, after: snapshots.Snapshot, entry: readers.Entry) -> None:
        """Queue an event."""
        self._pending.append((before, after, entry))

    def forget(self) -> None:
        """Drop the pending events: they belong to a history that has ended."""
        self._pending.clear()

    def notify(self) -> None:
        """Deliver the pending events. An exception stops nothing; the first one is raised at the end."""
        failures: list[Exception] = []

        def call(function: Callable[[], None]) -> None:
            try:
                function()
            except Exception as error:
                failures.append(error)

        while self._pending:
            for _ in range(len(self._pending)):
                try:
                    event = self._pending.popleft()
                except IndexError:
                    break  # They were dropped meanwhile.
                for callback in self._callbacks:
                    call(functools.partial(callback, *event))
            for ended in self._ended:
                call(ended)
        if failures:
            raise failures[0]
