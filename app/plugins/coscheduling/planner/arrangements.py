"""Arrangements of a few members on nodes, found by trial and error.

Slots count capacity for each class alone, and what other plugins admit to a node may depend on the members
that are placed before. So whether members can go together is known once they are tried together.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from app.domain import model
from app.plugins.coscheduling.planner import capacities, other_plugins

MEMBERS = 32
"""Of more members no arrangement is tried."""
Seats = dict[model.Uid, model.NodeName]


@dataclass(slots=True)
class Tries:
    """How often a member may still be put on a node; several searches may share it."""

    left: int


class Search:
    """A search for arrangements of all members."""

    def __init__(
        self, classes: Sequence[capacities.PodClass], beside: other_plugins.Beside | None = None
    ) -> None:
        """``classes`` in the order in which they are tried; ``beside``: the state that others judge."""
        self._beside = beside
        few = sum(len(one.pods) for one in classes) <= MEMBERS
        self._members: list[tuple[model.Pod, tuple[int, Hashable]]] = []
        """The pods, each with its class and what it is alike in; none if they are too many."""
        self._refused = [one.refused for one in classes]
        for number, one in enumerate(classes if few else ()):
            alike: dict[Hashable, list[model.Pod]] = {}
            for pod in one.pods:
                alike.setdefault(beside.others.kind(pod) if beside is not None else None, []).append(pod)
            self._members += [(pod, (number, key)) for key, pods in alike.items() for pod in pods]

    def cost(self, nodes: Sequence[model.NodeName]) -> float:
        """The tries that all arrangements on the nodes take at most; infinite for too many members."""
        if not self._members:
            return math.inf
        sizes = Counter(group for _, group in self._members).values()
        return math.prod(math.comb(len(nodes) + size - 1, size) for size in sizes) * len(self._members)

    def arrangements(
        self, nodes: Sequence[model.NodeName], capacity: capacities.Capacities, tries: Tries
    ) -> Iterator[Seats]:
        """All of them, until the tries are used up.

        Members that are alike go to nodes in order, so that no arrangement is tried twice.
        """
        members = self._members
        usable = [frozenset(nodes) - refused for refused in self._refused]

        def placed(
            chosen: tuple[int, ...], held: capacities.Capacities, beside: other_plugins.Beside | None
        ) -> Iterator[tuple[int, ...]]:
            """The places of all members; ``chosen``: those of the first ones."""
            at = len(chosen)
            pod, group = members[at]
            allowed = usable[group[0]]
            if beside is not None:
                allowed = beside.allowed(pod, allowed)
            first = chosen[-1] if at and members[at - 1][1] == group else 0
            for place in range(first, len(nodes) if allowed else 0):
                name = nodes[place]
                if name not in allowed or not held.fits(pod, name):
                    continue
                if tries.left <= 0:
                    return
                tries.left -= 1
                if at + 1 == len(members):
                    yield (*chosen, place)
                    continue
                trial = held.copy()
                trial.put(pod, name)
                yield from placed((*chosen, place), trial, beside and beside.plus(pod, name))

        for places in placed((), capacity, self._beside) if members else ():
            yield {pod.uid: nodes[place] for (pod, _), place in zip(members, places, strict=True)}
