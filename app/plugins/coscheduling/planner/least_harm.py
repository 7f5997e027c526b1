"""Chooses nodes for a group that preempts so that its evictions do the least harm.

kube-scheduler chooses the victims on the nodes that the members get, so the nodes decide which pods are
evicted. Small choices are compared one by one; larger ones are made node by node, the least harm for each
member first, and among equal harm domain by domain.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.domain import model
from app.plugins.coscheduling.planner import arrangements, capacities, other_plugins, packing, reprieves
from app.plugins.coscheduling.planner.arrangements import Seats
from app.plugins.coscheduling.planner.domains import Path

_COMPARED = 3_000
"""How often members are tried on nodes to compare all arrangements for one plan."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Nodes for all members, and what it costs to have them."""

    seats: Seats
    domain: Path
    outcome: reprieves.Outcome


def choose(
    problem: packing.PackingProblem,
    capacity: capacities.Capacities,
    made: packing.Sums,
    known: reprieves.Reprieves,
    others: other_plugins.Others,
) -> Choice | None:
    """The nodes with the least harm, in one domain that the gang demands; None if the members do not fit.

    ``capacity``: that of the cluster without any pod that may have to go; ``made``: the sums of its slots.
    """
    search = _Search(problem, capacity, known, others)
    best: Choice | None = None
    for domain in packing.demanded(problem, made):
        if made.domains[domain] < len(problem.pods):
            break
        if made.lacking(problem, domain):
            continue
        seats = search.within(packing.nodes_of(problem, made, domain), made)
        if seats is not None:
            outcome = known.outcome(by_node(problem.pods, seats))
            if best is None or outcome.harm < best.outcome.harm:
                best = Choice(seats, domain, outcome)
    return best


def by_node(
    pods: Sequence[model.Pod], seats: Mapping[model.Uid, model.NodeName]
) -> dict[model.NodeName, list[model.Pod]]:
    """Node -> the members that have a seat there."""
    found: dict[model.NodeName, list[model.Pod]] = {}
    for pod in pods:
        if pod.uid in seats:
            found.setdefault(seats[pod.uid], []).append(pod)
    return found


class _Step(NamedTuple):
    """Some equal members on one node; the least is the best."""

    violations: float
    priority: int
    weight: float
    number: float
    """All for each member, but the priority."""
    fewer: int
    """Minus the number of members."""
    place: int
    """Of the node."""
    there: int
    """Members that are on the node before."""


class _Search:
    """The search in one domain after the other."""

    def __init__(
        self,
        problem: packing.PackingProblem,
        capacity: capacities.Capacities,
        known: reprieves.Reprieves,
        others: other_plugins.Others,
    ) -> None:
        self._pods = problem.pods
        self._capacity = capacity
        self._known = known
        self._classes = capacities.by_size(problem.classes)
        self._search = arrangements.Search(self._classes, others.beside({}))
        self._tries = arrangements.Tries(_COMPARED)
        self._needs: dict[tuple[int, int], reprieves.Need] = {}
        """Class, members -> what these members take."""

    def within(self, nodes: Sequence[model.NodeName], made: packing.Sums) -> Seats | None:
        """A node for each member; None if no arrangement was found."""
        if self._search.cost(nodes) <= self._tries.left:
            return self._compared(nodes, made.classes)
        return self._stepwise(nodes, made.nodes)

    # -- all arrangements ----------------------------------------------------------------------

    def _compared(self, nodes: Sequence[model.NodeName], slots: arrangements.ClassSlots) -> Seats | None:
        best: tuple[reprieves.Harm, int] | None = None
        found: Seats | None = None
        for seats in self._search.arrangements(nodes, slots, self._capacity, self._tries):
            members = by_node(self._pods, seats)
            rank = self._known.outcome(members).harm, len(members)
            if best is None or rank < best:
                best, found = rank, seats
        return found

    # -- node by node --------------------------------------------------------------------------

    def _stepwise(self, nodes: Sequence[model.NodeName], slots: Mapping[model.NodeName, int]) -> Seats | None:
        """Again and again the members on the node where each costs least, until all have one."""
        capacity, seats = self._capacity.copy(), Seats()
        members: dict[model.NodeName, list[model.Pod]] = {}
        for number, one in enumerate(self._classes):
            left, last = len(one.pods), number == len(self._classes) - 1
            fitting = dict(slots) if len(self._classes) == 1 else capacity.slots(one, nodes)
            steps = [
                step
                for place, name in enumerate(nodes)
                if name in fitting
                for step in self._steps(number, place, name, min(left, fitting[name]), members.get(name, []))
            ]
            heapq.heapify(steps)
            while left and steps:
                step = heapq.heappop(steps)
                name, count = nodes[step.place], -step.fewer
                there = members.get(name, [])
                if count > left or step.there != len(there):
                    continue
                pods = one.pods[len(one.pods) - left :][:count]
                for pod in pods:
                    if not last:
                        capacity.put(pod, name)
                    seats[pod.uid] = name
                members[name] = [*there, *pods]
                left -= count
                fitting[name] -= count
                free = min(left, fitting[name])
                for each in self._steps(number, step.place, name, free, members[name]):
                    heapq.heappush(steps, each)
            if left:
                return None
        return seats

    def _steps(
        self, number: int, place: int, name: model.NodeName, most: int, there: list[model.Pod]
    ) -> Iterator[_Step]:
        """One member more on the node, two, four, and so on, and as many as it takes."""
        if most < 1:
            return
        before = self._known.on(name, reprieves.need(there)) if there else reprieves.NONE
        counts = (1,) if most == 1 else {most, *(2**power for power in range(most.bit_length()))}
        for count in counts:
            after = self._harm(number, count, name, there)
            yield _Step(
                (after.violations - before.violations) / count,
                after.priority if after != before else reprieves.NONE.priority,
                (after.weight - before.weight) / count,
                (after.number - before.number) / count,
                -count,
                place,
                len(there),
            )

    def _harm(self, number: int, count: int, name: model.NodeName, there: list[model.Pod]) -> reprieves.Harm:
        pods = self._classes[number].pods[:count]
        if there:
            return self._known.on(name, reprieves.need([*there, *pods]))
        of = self._needs.get((number, count))
        if of is None:
            of = self._needs[number, count] = reprieves.need(pods)
        return self._known.on(name, of)
