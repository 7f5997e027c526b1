"""Counts what a gang lacks, for people: how many seats there are where most of it fits, and of what."""

from collections import Counter
from typing import NamedTuple

from app.domain.fit import node_fit, quantities
from app.plugins.coscheduling.planner import capacities, domains, packing, plans
from app.plugins.coscheduling.planner.domains import Path


class Domain(NamedTuple):
    """A domain, and how much of the gang fits in it."""

    path: Path
    slots: int
    existing: int
    """Members that are there already."""


class Shortage(NamedTuple):
    """What the gang lacks."""

    needed: int
    """Waiting members that have to be placed together."""
    best: Domain
    """The domain that holds most of them."""
    missing: tuple[tuple[str, int, int], ...]
    """Resource, what of it is missing in that domain, and what the members request."""

    @property
    def exists(self) -> bool:
        """Whether capacity is lacking at all: other plugins may refuse what would fit."""
        return self.best.slots < self.needed or bool(self.missing)

    @property
    def sentence(self) -> str:
        """``6 of 8 seats in zone-a; nvidia.com/gpu 2 of 8 missing``."""
        where = "/".join(self.best.path) or "the cluster"
        parts = [f"{min(self.best.slots, self.needed)} of {self.needed} seats in {where}"]
        parts += [
            f"{resource} {quantities.written(resource, lacking)} of"
            f" {quantities.written(resource, wanted)} missing"
            for resource, lacking, wanted in self.missing
        ]
        if not self.missing and self.best.slots < self.needed:
            parts.append("what is free is spread over too many nodes")
        return "; ".join(parts)


def listed(question: plans.PlanRequest, limit: int) -> list[Domain]:
    """The domains that may hold the gang, those with most slots first."""
    problem, made = _problem(question)
    found = [path for path in made.domains if len(path) >= problem.demands.must]
    found.sort(key=lambda path: (len(path), -made.domains[path], path))
    return [Domain(path, made.domains[path], made.existing.get(path, 0)) for path in found[:limit]]


def shortage(question: plans.PlanRequest) -> Shortage:
    """What the gangs of the question lack to be placed together."""
    problem, made = _problem(question)
    needed = sum(gang.needed for gang in question.gangs) or min(1, len(problem.pods))
    found = packing.demanded(problem, made)
    best = Domain(found[0], made.domains[found[0]], made.existing.get(found[0], 0)) if found else None
    if best is None:
        best = Domain((), 0, 0)
    return Shortage(needed, best, tuple(_missing(question, problem, best.path, needed)))


def _problem(question: plans.PlanRequest) -> tuple[packing.PackingProblem, packing.Sums]:
    pods, snapshot = question.pods, question.counted
    existing = Counter(seat.node for gang in question.gangs for seat in gang.seats)
    problem = packing.PackingProblem(
        pods=pods,
        classes=capacities.classes(pods, {}),
        demands=question.demands,
        existing=existing,
        own=existing,
    )
    capacity = capacities.Capacities(snapshot)
    return problem, packing.sums(problem, packing.slots(problem, capacity))


def _missing(
    question: plans.PlanRequest, problem: packing.PackingProblem, domain: Path, needed: int
) -> list[tuple[str, int, int]]:
    """The resources of which all nodes of the domain together have too little free."""
    snapshot, chosen = question.counted, problem.pods[:needed]
    wanted = quantities.total(pod.requests for pod in chosen)
    if not chosen:
        return []
    free: dict[str, int] = {}
    for name, path in problem.demands.tree.paths.items():
        node = snapshot.nodes[name]
        if domains.within(path, domain) and not node_fit.refused(chosen[0], node):
            used = snapshot.used(name)
            for resource in wanted:
                left = node.allocatable.get(resource, 0) - used.get(resource, 0)
                free[resource] = free.get(resource, 0) + max(0, left)
    return [
        (resource, amount - free.get(resource, 0), amount)
        for resource, amount in sorted(wanted.items())
        if amount > free.get(resource, 0)
    ]
