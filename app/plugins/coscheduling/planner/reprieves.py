"""Selects the pods that kube-scheduler evicts for its own group once the members have nodes, and their harm.

kube-scheduler takes away every less important pod, places the group, and then puts back pod after pod, first
those whose eviction violates a PodDisruptionBudget, then the others, each the most important first. A pod
stays if all members still fit (selectVictimsOnDomain,
pkg/scheduler/framework/preemption/podgrouppreemption.go, Kubernetes 1.37). A group that is disrupted as a
whole is put back as a whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from app.domain import model, snapshots
from app.domain.fit import budgets, node_fit, quantities, victims
from app.domain.fold import node_sums
from app.plugins.coscheduling.planner import evictions

_LOWEST = -victims.OFFSET - 1
"""Below every priority."""


class Harm(NamedTuple):
    """What evictions cost, in the order in which kube-scheduler compares them for single pods."""

    violations: int = 0
    """Pods whose eviction violates a PodDisruptionBudget."""
    priority: int = _LOWEST
    """That of the most important victim."""
    weight: int = 0
    """The sum of the priorities, each raised above 0, so that fewer victims are less."""
    number: int = 0

    def beside(self, other: "Harm") -> "Harm":
        """The harm of both."""
        return Harm(
            self.violations + other.violations,
            max(self.priority, other.priority),
            self.weight + other.weight,
            self.number + other.number,
        )


NONE = Harm()


class Outcome(NamedTuple):
    """The evictions for a plan."""

    harm: Harm
    victims: tuple[model.Pod, ...]


class _Here(NamedTuple):
    """The pods of a unit on one node."""

    place: int
    """Of the unit, in the order in which units are put back."""
    number: int
    """Of the pods."""
    amounts: Mapping[str, int]
    ports: tuple[model.HostPort, ...]


class Need(NamedTuple):
    """What members take of a node."""

    number: int = 0
    amounts: Mapping[str, int] = MappingProxyType({})
    """Only what they request is limited."""
    ports: node_fit.PortIndex = node_fit.PortIndex(())


def need(members: Iterable[model.Pod]) -> Need:
    """What the members take together."""
    number, ports, amounts = 0, list[model.HostPort](), dict[str, int]()
    for one in members:
        number += 1
        for resource, amount in one.requests.items():
            if amount > 0:
                amounts[resource] = amounts.get(resource, 0) + amount
        ports += node_fit.ports_of(one)
    return Need(number, amounts, node_fit.PortIndex(ports))


class _Left:
    """What is left on a node for less important pods, beside members."""

    __slots__ = ("_free", "_pods", "_ports")

    def __init__(self, node: model.Node, used: Mapping[str, int], here: Sequence[_Here], of: Need) -> None:
        """``here``: all less important pods of the node, which are used up in ``used``."""
        allocatable = node.allocatable
        free: dict[str, int] = {}
        for resource, amount in of.amounts.items():
            left = allocatable.get(resource, 0) - used.get(resource, 0) - amount
            for one in here:
                left += one.amounts.get(resource, 0)
            free[resource] = left
        pods = allocatable.get(node_sums.PODS, 0) - used.get(node_sums.PODS, 0) - of.number
        for one in here:
            pods += one.number
        self._free, self._pods, self._ports = free, pods, of.ports

    def takes(self, one: _Here) -> bool:
        """Whether the members fit beside the pods: only what the members request is limited."""
        if self._ports.conflict(one.ports):
            return False
        if one.number > self._pods:
            return False
        amounts = one.amounts
        return all(amounts.get(resource, 0) <= left for resource, left in self._free.items())

    def put(self, one: _Here) -> None:
        self._pods -= one.number
        for resource in self._free:
            self._free[resource] -= one.amounts.get(resource, 0)


class Reprieves:
    """The pods that may have to go for a group, in the order in which they are put back."""

    def __init__(
        self,
        snapshot: snapshots.Snapshot,
        supposed: evictions.Evictions,
        held: budgets.ByNamespace,
    ) -> None:
        self._snapshot = snapshot
        everyone = supposed.units()
        # A pod that stays uses up a budget, too, if it is more important than others that the budget selects.
        violating = (
            budgets.violating((pod for unit in everyone for pod in unit.pods), held) if held else frozenset()
        )
        units = [unit for unit in everyone if not unit.stays]
        if violating:
            units.sort(key=lambda unit: not any(pod.uid in violating for pod in unit.pods))
        self._units = units
        self._harms = [_harm(unit, violating) for unit in units]
        self._here: dict[model.NodeName, list[_Here]] = {}
        for place, unit in enumerate(units):
            for name, pods in unit.by_node(snapshot).items():
                self._here.setdefault(name, []).append(_here(place, pods))

    def on(self, name: model.NodeName, of: Need) -> Harm:
        """The harm of members on one node, as if no other node were needed."""
        here = self._here.get(name)
        if here is None or self._fit_beside(name, here, of):
            return NONE
        if len(here) == 1:
            return self._harms[here[0].place]
        left = self._left(name, here, of)
        found: Harm | None = None
        for one in here:
            if left.takes(one):
                left.put(one)
            else:
                harm = self._harms[one.place]
                found = harm if found is None else found.beside(harm)
        return found or NONE

    def bearable(self, harm: Harm) -> tuple[model.Pod, ...]:
        """The pods that may go, of which none alone does more harm."""
        return tuple(
            pod
            for unit, one in zip(self._units, self._harms, strict=True)
            if one.priority <= harm.priority and one.violations <= harm.violations
            for pod in unit.pods
        )

    def outcome(self, members: Mapping[model.NodeName, Iterable[model.Pod]]) -> Outcome:
        """The evictions for members on these nodes, together."""
        left: dict[model.NodeName, _Left] = {}
        concerned: dict[int, list[tuple[model.NodeName, _Here]]] = {}
        going: set[int] = set()
        for name, pods in members.items():
            here, of = self._here.get(name), need(pods)
            if here is None or self._fit_beside(name, here, of):
                continue
            if len(here) == 1:
                going.add(here[0].place)
                continue
            left[name] = self._left(name, here, of)
            for one in here:
                concerned.setdefault(one.place, []).append((name, one))
        harm, gone = NONE, list[model.Pod]()
        for place in sorted(going.union(concerned)):
            parts = concerned.get(place, ())
            if place not in going and all(left[name].takes(one) for name, one in parts):
                for name, one in parts:
                    left[name].put(one)
            else:
                harm = harm.beside(self._harms[place])
                gone += self._units[place].pods
        return Outcome(harm, tuple(gone))

    def _fit_beside(self, name: model.NodeName, here: Sequence[_Here], of: Need) -> bool:
        """Whether the members fit on the node as it is, beside all of these pods: then none has to go."""
        allocatable, used = self._snapshot.nodes[name].allocatable, self._snapshot.used(name)
        if allocatable.get(node_sums.PODS, 0) - used.get(node_sums.PODS, 0) < of.number:
            return False
        for resource, amount in of.amounts.items():
            if allocatable.get(resource, 0) - used.get(resource, 0) < amount:
                return False
        return not any(of.ports.conflict(one.ports) for one in here)

    def _left(self, name: model.NodeName, here: Sequence[_Here], of: Need) -> _Left:
        return _Left(self._snapshot.nodes[name], self._snapshot.used(name), here, of)


def _harm(unit: evictions.Unit, violating: frozenset[model.Uid]) -> Harm:
    if len(unit.pods) == 1:
        return Harm(unit.pods[0].uid in violating, unit.priority, unit.priority + victims.OFFSET, 1)
    return Harm(
        violations=sum(pod.uid in violating for pod in unit.pods),
        priority=unit.priority,
        weight=sum(pod.priority + victims.OFFSET for pod in unit.pods),
        number=len(unit.pods),
    )


def _here(place: int, pods: Sequence[model.Pod]) -> _Here:
    if len(pods) == 1:
        (only,) = pods
        return _Here(place, 1, only.requests, node_fit.ports_of(only))
    amounts = quantities.total(pod.requests for pod in pods)
    return _Here(place, len(pods), amounts, tuple(port for pod in pods for port in node_fit.ports_of(pod)))
