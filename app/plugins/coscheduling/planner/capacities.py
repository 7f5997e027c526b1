"""Capacity for members on nodes: how many pods of each class a node takes.

Equal pods are one class, so that a gang of a thousand costs one calculation for each node.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from app.domain import model, node_sets, snapshots
from app.domain.fit import node_fit
from app.domain.fold import node_sums


@dataclass(frozen=True, slots=True, eq=False)
class PodClass:
    """Pods that fit on the same nodes."""

    sample: model.Pod
    pods: tuple[model.Pod, ...]
    refused: node_sets.Names
    """Nodes that other plugins refuse to each of the pods."""


def classes(pods: Sequence[model.Pod], refused: Mapping[model.Uid, node_sets.Names]) -> tuple[PodClass, ...]:
    """The classes of the pods, in the order of their first pods."""
    found: dict[object, list[model.Pod]] = {}
    for pod in pods:
        key = size(pod), refused.get(pod.uid, node_sets.NONE)
        found.setdefault(_Hashed(key), []).append(pod)
    return tuple(
        PodClass(each[0], tuple(each), refused.get(each[0].uid, node_sets.NONE)) for each in found.values()
    )


def size(pod: model.Pod) -> Hashable:
    """What a pod takes, and where it fits."""
    return _Hashed((tuple(sorted(pod.requests.items())), pod.constraints))


def alike(pod: model.Pod) -> Hashable:
    """Pods for which this is equal get the same answers of any plugin."""
    constraints = None if pod.constraints is model.STANDARD else pod.constraints
    written = repr((pod.labels, pod.annotations, pod.requests, constraints))
    return (
        pod.namespace,
        written,
        pod.priority,
        pod.preemption_policy,
        pod.scheduler,
        pod.owners,
        pod.group,
        pod.gated,
    )


def sizes(classes: Sequence[PodClass]) -> list[float]:
    """How large the pods of each class are, by their requests against the largest of each resource."""
    largest: dict[str, int] = {}
    for one in classes:
        for resource, amount in one.sample.requests.items():
            largest[resource] = max(largest.get(resource, 1), amount)
    return [
        sum(amount / largest[resource] for resource, amount in one.sample.requests.items()) for one in classes
    ]


def by_size(classes: Sequence[PodClass]) -> list[PodClass]:
    """The classes of the largest pods first."""
    large = sizes(classes)
    return [classes[at] for at in sorted(range(len(classes)), key=lambda at: -large[at])]


class _Hashed:
    """A key that holds structs, which have no hash: hashed by its first part, compared as a whole."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key

    def __hash__(self) -> int:
        return hash(self.key[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.key == other.key


class Capacities:
    """The free capacity of a state, and of what is put there beside."""

    def __init__(
        self,
        snapshot: snapshots.Snapshot,
        held: Mapping[model.NodeName, node_fit.Occupancy] = MappingProxyType({}),
    ) -> None:
        """``held``: what nodes hold, where that is not what the state has there."""
        self._snapshot = snapshot
        self._held = held
        self._put: dict[model.NodeName, node_fit.Occupancy] = {}
        """What nodes hold on which something was put."""

    def slots(self, one: PodClass, nodes: Iterable[model.NodeName]) -> dict[model.NodeName, int]:
        """Node -> pods of the class that fit there one after the other; full nodes are left out."""
        snapshot, sample, held, put = self._snapshot, one.sample, self._held, self._put
        known, residents, pod_of = snapshot.nodes, snapshot.residents, snapshot.pod
        wanted = [(resource, amount) for resource, amount in sample.requests.items() if amount > 0]
        ports = bool(sample.constraints and sample.constraints.host_ports)
        most = len(one.pods)
        found: dict[model.NodeName, int] = {}
        for name in nodes:
            node = known[name]
            if name in one.refused or node_fit.refused(sample, node):
                continue
            if ports:
                if not node_fit.crowded(sample, node, self.occupancy(name)):
                    found[name] = 1
                continue
            if name in put:
                amounts = put[name].amounts
            elif name in held:
                amounts = held[name].amounts
            else:
                amounts = residents.get(name, node_sums.EMPTY).occupied(pod_of)
            allocatable = node.allocatable
            free = allocatable.get(node_sums.PODS, 0) - amounts.get(node_sums.PODS, 0)
            if free > most:
                free = most
            for resource, amount in wanted:
                fitting = (allocatable.get(resource, 0) - amounts.get(resource, 0)) // amount
                if fitting < free:
                    free = fitting
            if free > 0:
                found[name] = free
        return found

    def occupancy(self, name: model.NodeName) -> node_fit.Occupancy:
        """What the node holds now."""
        found = self._put.get(name) or self._held.get(name)
        return found if found is not None else node_fit.occupancy(self._snapshot, name)

    def free(self, resources: Iterable[str]) -> dict[str, int]:
        """What all nodes together have free of the resources."""
        found = dict.fromkeys(resources, 0)
        for name, node in self._snapshot.nodes.items():
            held = self._put.get(name) or self._held.get(name)
            used = held.amounts if held is not None else self._snapshot.used(name)
            for resource in found:
                found[resource] += node.allocatable.get(resource, 0) - used.get(resource, 0)
        return found

    def fits(self, pod: model.Pod, name: model.NodeName) -> bool:
        """Whether the pod fits on the node beside all that was put there."""
        node = self._snapshot.nodes[name]
        return not (node_fit.refused(pod, node) or node_fit.crowded(pod, node, self.occupancy(name)))

    def put(self, pod: model.Pod, name: model.NodeName) -> None:
        """Put a pod on the node."""
        self._put[name] = self.occupancy(name).plus(pod)

    def copy(self) -> "Capacities":
        """The same capacity, changed apart from this one."""
        made = Capacities(self._snapshot, self._held)
        made._put.update(self._put)
        return made
