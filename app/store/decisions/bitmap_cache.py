"""Caches the sorted node names of snapshots and the bitmaps of candidate sets.

Consecutive decisions usually share the same nodes and the same candidates.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from itertools import count
from typing import NamedTuple

from app.store.decisions import bitmaps
from app.store.state import recent_snapshots

_KEPT = 8


class _Names(NamedTuple):
    """The sorted names of some nodes, and the index of each."""

    nodes: recent_snapshots.Nodes
    """Kept, so that its id stays its own."""
    names: tuple[str, ...]
    places: Mapping[str, int]


class BitmapCache:
    """The sorted node names of snapshots, and the bitmaps of candidate sets."""

    def __init__(self) -> None:
        self._names: OrderedDict[int, _Names] = OrderedDict()
        self._packings: OrderedDict[tuple[int, int], tuple[object, object, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def names(self, nodes: recent_snapshots.Nodes) -> tuple[str, ...]:
        """The names of the nodes, sorted."""
        return self._sorted(nodes).names

    def _sorted(self, nodes: recent_snapshots.Nodes) -> _Names:
        with self._lock:
            found = self._names.get(id(nodes))
            if found is None:
                names = tuple(sorted(nodes))
                found = self._names[id(nodes)] = _Names(nodes, names, dict(zip(names, count(), strict=False)))
                if len(self._names) > _KEPT:
                    self._names.popitem(last=False)
            return found

    def packed(self, candidates: Collection[str], nodes: recent_snapshots.Nodes | None) -> bytes:
        """The candidates as a bitmap over the nodes, if those are known."""
        known = self._sorted(nodes) if nodes is not None else None
        key = id(candidates), id(known)
        found = self._packings.get(key)
        if found is None:
            names, places = (known.names, known.places) if known is not None else (None, None)
            packed = bitmaps.pack(candidates, names, places)
            found = self._packings[key] = candidates, known, packed
            if len(self._packings) > _KEPT:
                self._packings.popitem(last=False)
        return found[2]
