"""The connections that wait: for their clients, each polled until its deadline, or for memory.

Belongs to the loop.
"""

import collections
import functools
import selectors
from collections.abc import Callable, Iterator, Sequence

from app.serving.http import connections

Event = Callable[[connections.Connection, object], None]


class WaitSet:
    """A set of connections, polled by `poller`; `ready` is called with a connection that has an event."""

    def __init__(self, poller: selectors.BaseSelector, ready: Event) -> None:
        self._poller = poller
        self._ready = ready
        self._held: set[connections.Connection] = set()

    def __iter__(self) -> Iterator[connections.Connection]:
        """Iterate over a copy."""
        return iter(tuple(self._held))

    def watch(self, conn: connections.Connection, mask: int) -> None:
        """Poll a connection for events; 0: wait only for its deadline. Raises OSError."""
        if mask != conn.mask:
            if conn.mask:
                self._poller.unregister(conn.sock)
            conn.mask = 0
            if mask:
                self._poller.register(conn.sock, mask, functools.partial(self._ready, conn))
            conn.mask = mask
        self._held.add(conn)

    def forget(self, conn: connections.Connection) -> None:
        """Stop polling a connection: a thread owns it, or it is closed."""
        self._held.discard(conn)
        if conn.mask:
            conn.mask = 0
            self._poller.unregister(conn.sock)

    def to_evict(self, count: int) -> Sequence[connections.Connection]:
        """Return up to `count` connections, those to close first where too many are open.

        The holder of the most loses one, that which waits longest, then again; kube-scheduler comes last.
        """
        held = collections.Counter[object]()
        ranks: dict[connections.Connection, tuple[bool, int, float]] = {}
        for conn in sorted(self._held, key=lambda each: each.since, reverse=True):
            held[conn.holder] += 1
            ranks[conn] = (conn.scheduler, -held[conn.holder], conn.since)
        return sorted(ranks, key=ranks.__getitem__)[:count]

    def cap(self, deadline: float) -> None:
        """Limit the deadline of idle connections (monotonic)."""
        for conn in self._held:
            if conn.state is connections.State.IDLE:
                conn.deadline = min(conn.deadline, deadline)


class MemoryQueue:
    """The connections whose calls wait for the memory of their bodies, oldest first."""

    def __init__(self) -> None:
        self._queued: collections.deque[connections.Connection] = collections.deque()
        self._freed = False

    def add(self, conn: connections.Connection) -> None:
        """Queue a connection."""
        self._queued.append(conn)

    def freed(self) -> None:
        """Memory has been released. Thread-safe."""
        self._freed = True

    def ready(self) -> Iterator[connections.Connection]:
        """Take out the connections that still wait, if memory was released; add those that have to wait on.

        Once more if it is released meanwhile, as by a body that is cut.
        """
        while self._freed and self._queued:
            self._freed = False
            for _ in range(len(self._queued)):
                conn = self._queued.popleft()
                if conn.state is connections.State.QUEUED:
                    yield conn
