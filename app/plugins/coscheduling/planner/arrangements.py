"""Arrangements of a few members on nodes, found by trial and error.

Slots count capacity for each class alone, and what other plugins admit to a node may depend on the members
that are placed before. So whether members can go together is known once they are tried together.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from app.domain import model
from app.plugins.coscheduling.planner import capacities, other_plugins

MEMBERS = 32
"""Of more members no arrangement is tried."""
PLAN = 4_000
"""How often it is tried for one plan whether a member fits on a node, to pack members of several sizes."""
_JUDGED_TRIES = 9
"""Tries that placing a member costs while other plugins judge the following ones."""
Seats = dict[model.Uid, model.NodeName]
ClassSlots = Mapping[model.Uid, Mapping[model.NodeName, int]]
"""Sample of a class -> node -> pods of the class that fit there alone; full nodes are left out."""


@dataclass(slots=True)
class Tries:
    """How often it may still be tried whether a member fits on a node; several searches may share it."""

    left: int
    """Below 0 after what is not limited by it: only searches end at 0."""

    def fits(self, held: capacities.Capacities, pod: model.Pod, name: model.NodeName) -> bool:
        """Whether the pod fits on the node beside what is held: one try."""
        self.left -= 1
        return held.fits(pod, name)

    @contextmanager
    def part(self, parts: int) -> Iterator["Tries"]:
        """One of so many equal parts of what is left; what it does not use up is left afterwards."""
        given = self.left // parts
        share = Tries(given)
        yield share
        self.left -= given - share.left


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
        self._classes = [one.sample.uid for one in classes]
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
        self,
        nodes: Sequence[model.NodeName],
        slots: ClassSlots,
        capacity: capacities.Capacities,
        tries: Tries,
    ) -> Iterator[Seats]:
        """All of them, until the tries are used up. ``slots``: those in the capacity.

        Members that are alike go to nodes in order, so that no arrangement is tried twice.
        """
        members = self._members
        usable = [[name for name in nodes if name in slots[uid]] for uid in self._classes]
        offered = [frozenset(names) for names in usable]

        def placed(
            chosen: tuple[int, ...], held: capacities.Capacities, beside: other_plugins.Beside | None
        ) -> Iterator[tuple[int, ...]]:
            """The places of all members; ``chosen``: those of the first ones."""
            at = len(chosen)
            pod, group = members[at]
            places, allowed = usable[group[0]], offered[group[0]]
            if beside is not None:
                allowed = beside.allowed(pod, allowed)
            first = chosen[-1] if at and members[at - 1][1] == group else 0
            for place in range(first, len(places) if allowed else 0):
                name = places[place]
                if name not in allowed:
                    continue
                if tries.left <= 0:
                    return
                if not tries.fits(held, pod, name):
                    continue
                if at + 1 == len(members):
                    yield (*chosen, place)
                    continue
                trial = held.copy()
                trial.put(pod, name)
                if beside is not None:
                    tries.left -= _JUDGED_TRIES
                yield from placed((*chosen, place), trial, beside and beside.plus(pod, name))

        for places in placed((), capacity, self._beside) if members else ():
            yield {
                pod.uid: usable[group[0]][place] for (pod, group), place in zip(members, places, strict=True)
            }


def largest_first(
    classes: Sequence[capacities.PodClass],
    pods: Sequence[model.Pod],
    nodes: Sequence[model.NodeName],
    slots: ClassSlots,
    capacity: capacities.Capacities,
    tries: Tries,
    before: frozenset[model.Uid] = frozenset(),
) -> Seats:
    """Each member on the first node with capacity for it, those of ``before`` first, then by size.

    The tries do not limit it: there are few beside one for each member.
    """
    number = {pod.uid: at for at, one in enumerate(classes) for pod in one.pods}
    sizes, trial, seats = capacities.sizes(classes), capacity.copy(), Seats()
    # Members only take capacity: the nodes that were too small for one are too small for all of its class.
    left = [iter([name for name in nodes if name in slots[one.sample.uid]]) for one in classes]
    present = [next(names, None) for names in left]
    for pod in sorted(pods, key=lambda pod: (pod.uid not in before, -sizes[number[pod.uid]])):
        own = number[pod.uid]
        while (name := present[own]) is not None:
            if tries.fits(trial, pod, name):
                trial.put(pod, name)
                seats[pod.uid] = name
                break
            present[own] = next(left[own], None)
    return seats
