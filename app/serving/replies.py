"""Bounds the replies in memory to requests other than verbs: each has a place until its client has read it.

A finished reply waits in its connection until the client reads it, for the whole deadline of a reply. Without
the place, a client that asks and never reads would fill the memory of the process that serves the verbs.
"""

import collections

from app.serving.http import connections


class ReplyPlaces:
    """The connections that have a place, from the dispatch of a request to the end of its reply.

    Belongs to the loop.
    """

    def __init__(self, most: int) -> None:
        """`most`: requests at work, in the queue, and with a reply that is not read."""
        self._most = most
        self._held: set[connections.Connection] = set()

    def take(self, conn: connections.Connection) -> bool:
        """Take a place; return whether one was free, or became it: see `_giving_way`."""
        if len(self._held) >= self._most:
            unread = self._giving_way(conn)
            if unread is None:
                return False
            # The next sweep closes it: one that is closed here may have an event that is not handled yet.
            unread.deadline = 0.0
            self._held.discard(unread)
        self._held.add(conn)
        return True

    def release(self, conn: connections.Connection) -> None:
        """Release the place of a connection that has one."""
        self._held.discard(conn)

    def _giving_way(self, conn: connections.Connection) -> connections.Connection | None:
        """Return the connection that loses its place to this one where none is free, or None.

        It is that of the caller with the most replies that are not read, if this caller still has fewer with
        one more; of these the one that has waited longest.
        """
        unread = [one for one in self._held if one.state is connections.State.SENDING]
        numbers = collections.Counter(one.holder for one in unread)
        most = max(numbers.values(), default=0)
        if most <= numbers[conn.holder] + 1:
            return None
        return min((one for one in unread if numbers[one.holder] == most), key=lambda one: one.since)
