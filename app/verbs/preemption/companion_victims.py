"""The victims that may go for the other pods that a pod is placed with.

kube-scheduler preempts for one member of a gang after the other. A node is kept for a member also if the gang
fits once pods of further nodes are gone: victims on offer that no plugin protects together, and that another
waiting member may evict. An offer may not have all nodes where an eviction would help. Then a node is also
kept for what a plugin finds in the whole cluster (cycles.Cycle.before_evictions).
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from app.domain import model
from app.framework import cycles, pipeline, registry

LIMIT = 100
"""Nodes at which the dry run may end; an offer of fewer has all (minCandidateNodesAbsolute)."""
MOST = 1_000
"""Victims of others that are supposed to go; each is compared with those before it."""
_LOWEST = -(2**31)
"""No pod has a lower priority."""
Offered = Mapping[model.NodeName, Sequence[model.Pod]]
"""Node -> its proposed victims that are recorded."""


class CompanionVictims:
    """What holds for all nodes of one offer."""

    def __init__(
        self, plugins: registry.Registry, base: cycles.Cycle, offered: Offered, *, nodes: int
    ) -> None:
        """``nodes``: how many the offer has."""
        self._plugins, self._base, self._offered = plugins, base, offered
        self._limited = nodes >= LIMIT
        self._companions = plugins.companions(base.snapshot, base.pod)
        able = (one.priority for one in self._companions if one.preemption_policy != "Never")
        self._highest = max(able, default=_LOWEST)

    def supposed(
        self, alone: cycles.Cycle, node: model.NodeName, going: Sequence[model.Pod]
    ) -> Iterator[cycles.Cycle]:
        """The cycle in which the victims of the node are gone -> the same without those of others, too."""
        if not self._companions:
            return
        if self._may_go(node, going):
            further = [one for one in going if one.uid in self._together.snapshot.pods]
            without = cycles.without(self._together, further)
            yield replace(without, candidates=alone.candidates)
        if self._limited:
            yield replace(alone, before_evictions=self._base.snapshot)

    def _may_go(self, node: model.NodeName, going: Sequence[model.Pod]) -> bool:
        """Whether plugins let the victims of the node go with those of the others."""
        others = self._others.get(node)
        if others is None and (not self._others or self._evictable(going)):
            return False
        added = others is None or len(going) > len(others)
        return not added or self._protection(node, (*self._all, *going)) is None

    def _protection(self, node: model.NodeName, going: Sequence[model.Pod]) -> str | None:
        each = {victim.uid: victim for victim in going}
        return pipeline.protection(self._plugins, self._base, node, tuple(each.values()))

    def _evictable(self, each: Sequence[model.Pod]) -> bool:
        """Whether another waiting member may evict all of these pods."""
        return all(victim.priority < self._highest for victim in each)

    @functools.cached_property
    def _together(self) -> cycles.Cycle:
        return cycles.without(self._base, self._all)

    @functools.cached_property
    def _all(self) -> tuple[model.Pod, ...]:
        return tuple(victim for each in self._others.values() for victim in each)

    @functools.cached_property
    def _others(self) -> Offered:
        """The victims of the least harm that may go one node after the other."""
        offered = {node: each for node, each in self._offered.items() if each and self._evictable(each)}
        chosen: dict[model.NodeName, Sequence[model.Pod]] = {}
        going: list[model.Pod] = []
        for node in sorted(offered, key=lambda name: _harm(name, offered[name])):
            more = [*going, *offered[node]]
            if len(more) > MOST:
                break
            if self._protection(node, more) is None:
                chosen[node], going = offered[node], more
        return chosen


def _harm(name: model.NodeName, each: Sequence[model.Pod]) -> tuple[int, int, model.NodeName]:
    """The larger, the worse: as kube-scheduler, the most important victim before their number."""
    return max(victim.priority for victim in each), len(each), name
