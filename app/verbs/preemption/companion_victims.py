"""The victims that may go for the other pods that a pod is placed with.

kube-scheduler preempts for one member of a gang after the other. A node is kept for a member also if the gang
fits once pods of further nodes are gone: victims on offer that no plugin protects together, and that another
waiting member may evict. An offer may not have all nodes where an eviction would help. Then a node is also
kept for what a plugin finds in the whole cluster (cycles.Before.further).
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from app.domain import model
from app.domain.fit import victims
from app.framework import cycles, pipeline, registry

MOST = 5_000
"""Victims of others that are supposed to go, where the offer may not have all nodes anyway."""
TRIES = 4
"""Nodes with which others are supposed to go that had to stay beside the first choice."""
Offered = Mapping[model.NodeName, Sequence[model.Pod]]
"""Node -> its proposed victims that are recorded."""


class CompanionVictims:
    """What holds for all nodes of one offer."""

    def __init__(
        self, plugins: registry.Registry, base: cycles.Cycle, offered: Offered, *, nodes: int
    ) -> None:
        """``nodes``: how many the offer has."""
        self._plugins, self._base, self._offered = plugins, base, offered
        self._limited = nodes >= cycles.OFFERED
        self._companions = plugins.companions(base.snapshot, base.pod)
        able = (one.priority for one in self._companions if one.preemption_policy != "Never")
        self._highest = max(able, default=victims.LOWEST)

    def supposed(
        self, alone: cycles.Cycle, node: model.NodeName, going: Sequence[model.Pod]
    ) -> Iterator[cycles.Cycle]:
        """The cycle in which the victims of the node are gone -> the same without those of others, too."""
        if not self._companions:
            return
        before = self._base.snapshot
        together = self._beside(node, going)
        if together is not None:
            yield replace(together, candidates=alone.candidates, before=cycles.Before(before, further=False))
        if self._limited:
            yield replace(alone, before=cycles.Before(before, further=True))

    def _beside(self, node: model.NodeName, going: Sequence[model.Pod]) -> cycles.Cycle | None:
        """The cycle without the victims of the node and those of others; None if they may not go together."""
        chosen, added = self._first, len(going) > len(self._offered.get(node, ()))
        if node in chosen and not added:
            return self._together
        if node in self._second:
            return cycles.without(self._base, _every(self._chosen((node, going))))
        every = {victim.uid: victim for victim in (*_every(chosen), *going)}
        evictable = node not in chosen and self._evictable(going)
        if not chosen or evictable or self._protection(node, tuple(every.values())) is not None:
            return None
        further = [victim for victim in going if victim.uid in self._together.snapshot.pods]
        return cycles.without(self._together, further)

    def _protection(self, node: model.NodeName, going: Sequence[model.Pod]) -> str | None:
        return pipeline.protection(self._plugins, self._base, node, going)

    def _evictable(self, each: Sequence[model.Pod]) -> bool:
        """Whether another waiting member may evict all of these pods."""
        return all(victim.priority < self._highest for victim in each)

    @functools.cached_property
    def _together(self) -> cycles.Cycle:
        return cycles.without(self._base, _every(self._first))

    @functools.cached_property
    def _first(self) -> Offered:
        return self._chosen()

    @functools.cached_property
    def _second(self) -> frozenset[model.NodeName]:
        """Nodes whose victims may go, but not beside those of the first choice, which may be of no use."""
        left = (node for node in self._ordered if node not in self._first)
        return frozenset(itertools.islice(left, TRIES))

    @functools.cached_property
    def _ordered(self) -> list[model.NodeName]:
        """The nodes from which others may evict the victims, those of the least harm first."""
        offered = self._offered
        possible = (node for node, each in offered.items() if each and self._evictable(each))
        return sorted(possible, key=lambda node: _harm(node, offered[node]))

    def _chosen(self, *first: tuple[model.NodeName, Sequence[model.Pod]]) -> Offered:
        """The victims that may go one node after the other; ``first``: those that go in any case."""
        chosen: dict[model.NodeName, Sequence[model.Pod]] = dict(first)
        going = list(_every(chosen))
        for node in self._ordered:
            more = [*going, *self._offered[node]]
            if self._limited and len(more) > MOST:
                break
            if node not in chosen and self._protection(node, more) is None:
                chosen[node], going = self._offered[node], more
        return chosen


def _every(offered: Offered) -> tuple[model.Pod, ...]:
    return tuple(victim for each in offered.values() for victim in each)


def _harm(name: model.NodeName, each: Sequence[model.Pod]) -> tuple[int, int, model.NodeName]:
    """The larger, the worse: as kube-scheduler, the most important victim before their number."""
    return max(victim.priority for victim in each), len(each), name
