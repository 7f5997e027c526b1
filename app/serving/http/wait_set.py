"""The connections that wait for their clients: each is polled until its deadline. Belongs to the loop."""

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
