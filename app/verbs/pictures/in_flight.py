"""Placements in flight of each count: of pods that are placed and not observed as bound."""

import collections
from collections.abc import Mapping
from typing import NamedTuple

from app.domain import declared_objects, model, schema, snapshots


class _Read(NamedTuple):
    """All that the contributions of a pod depend on."""

    pod: model.Pod | None
    node: model.Node | None
    objects: declared_objects.Objects

    def same(self, other: "_Read") -> bool:
        return all(one is another for one, another in zip(self, other, strict=True))


class InFlight:
    """Sums the contributions of the placements of one snapshot after another.

    Those of a placement are computed again only if what they depend on is another object.
    """

    def __init__(self) -> None:
        self._held: Mapping[model.Uid, tuple[_Read, Mapping[schema.CountKey, int]]] = {}

    def of(self, snapshot: snapshots.Snapshot) -> Mapping[schema.CountKey, int]:
        """Count -> how much of it is in flight; counts without any are left out."""
        self._held = {uid: self._raised(snapshot, uid) for uid in snapshot.placements}
        found: collections.Counter[schema.CountKey] = collections.Counter()
        for _, raised in self._held.values():
            found.update(raised)
        return found

    def _raised(
        self, snapshot: snapshots.Snapshot, uid: model.Uid
    ) -> tuple[_Read, Mapping[schema.CountKey, int]]:
        name = snapshot.node_of(uid)
        read = _Read(snapshot.pod(uid), snapshot.nodes.get(name), snapshot.objects)
        held = self._held.get(uid)
        if held is not None and held[0].same(read):
            return held
        return read, snapshot.contributions(read.pod, name) if read.pod is not None else {}
