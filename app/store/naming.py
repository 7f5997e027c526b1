"""The sorted node names of snapshots and the packings of candidates, each made once.

Decisions that are close together were mostly about the same nodes, and about the same candidates.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from itertools import count
from typing import NamedTuple

from app.store import packing, recalling

_KEPT = 8


class _Names(NamedTuple):
    """The names of some nodes, sorted, and where each of them stands."""

    nodes: recalling.Nodes
    """Kept, so that its id stays its own."""
    names: tuple[str, ...]
    places: Mapping[str, int]


class Known:
    """The sorted node names of snapshots, and the packings of candidate sets, each made once."""

    def __init__(self) -> None:
        self._names: OrderedDict[int, _Names] = OrderedDict()
        self._packings: OrderedDict[tuple[int, int], tuple[object, object, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def names(self, nodes: recalling.Nodes) -> tuple[str, ...]:
        """The names of the nodes, sorted."""
        return self._sorted(nodes).names

    def _sorted(self, nodes: recalling.Nodes) -> _Names:
        with self._lock:
            found = self._names.get(id(nodes))
            if found is None:
                names = tuple(sorted(nodes))
                found = self._names[id(nodes)] = _Names(nodes, names, dict(zip(names, count(), strict=False)))
                if len(self._names) > _KEPT:
                    self._names.popitem(last=False)
            return found

    def packed(self, candidates: Collection[str], nodes: recalling.Nodes | None) -> bytes:
        """The candidates in terms of the nodes, if those are at hand."""
        known = self._sorted(nodes) if nodes is not None else None
        key = id(candidates), id(known)
        found = self._packings.get(key)
        if found is None:
            names, places = (known.names, known.places) if known is not None else (None, None)
            packed = packing.pack(candidates, names, places)
            found = self._packings[key] = candidates, known, packed
            if len(self._packings) > _KEPT:
                self._packings.popitem(last=False)
        return found[2]
