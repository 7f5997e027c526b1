"""Caches the sorted node names of snapshots, the bitmaps of candidate sets, and the sets of bitmaps.

Consecutive decisions usually share the same nodes and the same candidates.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from itertools import count
from typing import NamedTuple

from app.domain import node_sets
from app.store.decisions import bitmaps

_KEPT = 8


class _Names(NamedTuple):
    """The sorted names of some nodes, and the index of each."""

    nodes: Collection[str]
    """Kept, so that its id stays its own."""
    names: tuple[str, ...]
    places: Mapping[str, int]


class BitmapCache:
    """The sorted node names of snapshots, the bitmaps of candidate sets, and the sets of bitmaps."""

    def __init__(self) -> None:
        self._names: OrderedDict[int, _Names] = OrderedDict()
        self._packings: OrderedDict[tuple[int, int], tuple[object, object, bytes]] = OrderedDict()
        self._sets: OrderedDict[tuple[bytes, int], tuple[node_sets.Names, node_sets.Names]] = OrderedDict()
        self._lock = threading.Lock()

    def names(self, nodes: Collection[str]) -> tuple[str, ...]:
        """The names of the nodes, sorted."""
        return self._sorted(nodes).names

    def _sorted(self, nodes: Collection[str]) -> _Names:
        with self._lock:
            found = self._names.get(id(nodes))
            if found is None:
                names = tuple(sorted(nodes))
                found = self._names[id(nodes)] = _Names(nodes, names, dict(zip(names, count(), strict=False)))
                if len(self._names) > _KEPT:
                    self._names.popitem(last=False)
            return found

    def packed(self, candidates: Collection[str], nodes: Collection[str] | None) -> bytes:
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

    def unpacked(self, packed: bytes, everywhere: node_sets.Names) -> node_sets.Names:
        """The candidates of a bitmap over all these nodes; equal bitmaps share one set and its results.

        It is ``everywhere`` itself if all of them are candidates.
        """
        key = packed, id(everywhere)
        with self._lock:
            found = self._sets.get(key)
            if found is not None:
                return found[1]
        nodes = bitmaps.unpack(packed, self.names(everywhere))
        alike = node_sets.shared(nodes, everywhere)
        made = alike if alike is everywhere else node_sets.InternedNodes(nodes)
        with self._lock:
            self._sets[key] = everywhere, made
            if len(self._sets) > _KEPT:
                self._sets.popitem(last=False)
        return made
