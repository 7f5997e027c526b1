"""Placements in flight of each count: of pods that are placed and not observed as bound."""

import collections
from collections.abc import Mapping
from typing import NamedTuple

from app.domain import model, schema, snapshots


class _Raised(NamedTuple):
    """The contributions of a placement, and what they were computed of beside the declared objects."""

    placement: model.Placement
    pod: model.Pod | None
    """As observed; None if it was only placed so far."""
    node: model.Node | None
    counts: Mapping[schema.CountKey, int]


class InFlight:
    """Sums the contributions of the placements of one snapshot after another.

    Those of a placement are computed again only if what they depend on is another object, and nothing is
    summed again while no placement, pod, node or object changes: a series has a sum after each event.
    """

    def __init__(self) -> None:
        self._last: snapshots.Snapshot | None = None
        self._held: dict[model.Uid, _Raised] = {}
        self._sums: collections.Counter[schema.CountKey] = collections.Counter()

    def of(self, snapshot: snapshots.Snapshot) -> Mapping[schema.CountKey, int]:
        """Count -> how much of it is in flight, or 0. Valid until the next call."""
        last, self._last = self._last, snapshot
        if last is None or last.objects is not snapshot.objects:
            self._held.clear()
            self._sums.clear()
        elif (
            last.placements is snapshot.placements
            and last.pods is snapshot.pods
            and last.nodes is snapshot.nodes
        ):
            return self._sums
        former, self._held = self._held, {}
        for uid, placement in snapshot.placements.items():
            pod, held = snapshot.pods.get(uid), former.get(uid)
            name = (pod.node if pod is not None else "") or placement.node
            node = snapshot.nodes.get(name)
            if held is not None and held.pod is pod and held.node is node and held.placement is placement:
                del former[uid]
            else:
                counted = pod if pod is not None and pod.node else placement.written(pod or placement.pod)
                counts = snapshot.contributions(counted, name)
                held = _Raised(placement, pod, node, counts)
                self._sums.update(counts)
            self._held[uid] = held
        for gone in former.values():
            self._sums.subtract(gone.counts)
        return self._sums
