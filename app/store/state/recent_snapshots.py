"""Keeps a bounded number of recent snapshots; they share what did not change between them."""

from collections import deque

import immutables

from app.domain import model, snapshots

Nodes = immutables.Map[model.NodeName, model.Node]

_NODES = 256
_RING = 32
_RING_STEP = 256
"""A kept snapshot holds what later events changed: about 1 KiB per event."""


class RecentSnapshots:
    """The latest snapshots of one incarnation; added by one thread, read by any."""

    def __init__(self, first: snapshots.Snapshot) -> None:
        self._recent: deque[snapshots.Snapshot] = deque((first,), maxlen=_RING)
        self._nodes: deque[tuple[int, Nodes]] = deque(((first.offset, first.nodes),), maxlen=_NODES)

    def add(self, snapshot: snapshots.Snapshot) -> None:
        """Add a snapshot that follows the last one."""
        if snapshot.nodes is not self._nodes[-1][1]:
            self._nodes.append((snapshot.offset, snapshot.nodes))
        if snapshot.offset - self._recent[-1].offset >= _RING_STEP:
            self._recent.append(snapshot)

    def nearest(self, offset: int, latest: snapshots.Snapshot) -> snapshots.Snapshot | None:
        """The latest one, ``latest`` included, that is not after the offset; None if all are later."""
        found = [kept for kept in (*self._recent, latest) if kept.offset <= offset]
        return max(found, key=lambda kept: kept.offset, default=None)

    def nodes_at(self, offset: int) -> Nodes | None:
        """The nodes as they were at the offset; None if they are too old."""
        return next((nodes for since, nodes in reversed(tuple(self._nodes)) if since <= offset), None)
