"""Which pods kube-scheduler evicts for a group of its own once the members have nodes, and what harm that is.

It takes away every less important pod, places the group, and then puts back pod after pod, first those whose
eviction violates a PodDisruptionBudget, then the others, each the most important first. A pod stays if all
members still fit (selectVictimsOnDomain, pkg/scheduler/framework/preemption/podgrouppreemption.go, Kubernetes
1.37). A group that is disrupted as a whole is put back as a whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.domain import model, snapshots
from app.domain.fitting import budgets, node_fit, node_sums, victims
from app.plugins.coscheduling.planning import evictions

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
    amounts: Mapping[str, int]
    ports: tuple[model.HostPort, ...]


class _Left:
    """What is left on a node for less important pods, beside members."""

    __slots__ = ("_free", "_ports")

    def __init__(self, free: Mapping[str, int], members: Iterable[model.Pod]) -> None:
        """``free``: of the node without any less important pod."""
        self._free: dict[str, int] = {}
        self._ports: list[model.HostPort] = []
        for one in members:
            for resource, amount in ((node_sums.PODS, 1), *one.requests.items()):
                if amount > 0:
                    left = self._free.get(resource)
                    self._free[resource] = (free.get(resource, 0) if left is None else left) - amount
            self._ports += node_fit.ports_of(one)

    def takes(self, one: _Here) -> bool:
        """Whether the members fit beside the pods: only what the members request is limited."""
        if self._ports and any(
            node_fit.conflict(wanted, taken) for wanted in self._ports for taken in one.ports
        ):
            return False
        amounts = one.amounts
        return all(amounts.get(resource, 0) <= left for resource, left in self._free.items())

    def put(self, one: _Here) -> None:
        for resource in self._free:
            self._free[resource] -= one.amounts.get(resource, 0)


class Reprieves:
    """The pods that may have to go for a group, in the order in which they are put back."""

    def __init__(
        self,
        snapshot: snapshots.Snapshot,
        supposed: evictions.Evictions,
        held: Sequence[budgets.DisruptionBudget],
    ) -> None:
        self._snapshot = snapshot
        units = supposed.units()
        violating = (
            budgets.violating((pod for unit in units for pod in unit.pods), held) if held else frozenset()
        )
        if violating:
            units.sort(key=lambda unit: not any(pod.uid in violating for pod in unit.pods))
        self._units = units
        self._harms = [_harm(unit, violating) for unit in units]
        self._here: dict[model.NodeName, list[_Here]] = {}
        for place, unit in enumerate(units):
            for name, pods in unit.by_node(snapshot).items():
                self._here.setdefault(name, []).append(_here(place, pods))
        self._free: dict[model.NodeName, dict[str, int]] = {}

    def on(self, name: model.NodeName, members: Iterable[model.Pod]) -> Harm:
        """The harm of the members on one node, as if no other node were needed."""
        here = self._here.get(name)
        if here is None:
            return NONE
        left = _Left(self._free_of(name), members)
        found = NONE
        for one in here:
            if left.takes(one):
                left.put(one)
            else:
                found = found.beside(self._harms[one.place])
        return found

    def outcome(self, members: Mapping[model.NodeName, Iterable[model.Pod]]) -> Outcome:
        """The evictions for members on these nodes, together."""
        left: dict[model.NodeName, _Left] = {}
        concerned: dict[int, list[tuple[model.NodeName, _Here]]] = {}
        for name, pods in members.items():
            here = self._here.get(name)
            if here is not None:
                left[name] = _Left(self._free_of(name), pods)
                for one in here:
                    concerned.setdefault(one.place, []).append((name, one))
        harm, gone = NONE, list[model.Pod]()
        for place in sorted(concerned):
            parts = concerned[place]
            if all(left[name].takes(one) for name, one in parts):
                for name, one in parts:
                    left[name].put(one)
            else:
                harm = harm.beside(self._harms[place])
                gone += self._units[place].pods
        return Outcome(harm, tuple(gone))

    def _free_of(self, name: model.NodeName) -> dict[str, int]:
        """What the node has without any of the pods that may have to go."""
        found = self._free.get(name)
        if found is None:
            found = dict(self._snapshot.nodes[name].allocatable)
            for resource, amount in self._snapshot.used(name).items():
                found[resource] = found.get(resource, 0) - amount
            for one in self._here.get(name, ()):
                for resource, amount in one.amounts.items():
                    found[resource] = found.get(resource, 0) + amount
            self._free[name] = found
        return found


def _harm(unit: evictions.Unit, violating: frozenset[model.Uid]) -> Harm:
    return Harm(
        violations=sum(pod.uid in violating for pod in unit.pods),
        priority=unit.priority,
        weight=sum(pod.priority + victims.OFFSET for pod in unit.pods),
        number=len(unit.pods),
    )


def _here(place: int, pods: Sequence[model.Pod]) -> _Here:
    amounts: dict[str, int] = {}
    for pod in pods:
        node_sums.add_up(amounts, pod, +1)
    ports = tuple(port for pod in pods for port in node_fit.ports_of(pod))
    return _Here(place, amounts, ports)
