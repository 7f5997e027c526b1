"""The nodes that pods fit on by kube-scheduler's rules, while supposed pods are placed one by one."""

from collections.abc import Iterable

import msgspec

from app.domain import model, snapshots
from app.domain.fit import node_fit
from app.domain.fold import node_sums

_spelling = msgspec.json.Encoder(order="deterministic")


class FittingNodes:
    """The nodes of one snapshot that a pod fits on, and what the pods that are placed meanwhile take.

    The nodes are found once for all pods that are alike; a placement is then evaluated for one node each.
    """

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self._snapshot = snapshot
        self._held: dict[model.NodeName, node_fit.Occupancy] = {}
        self._found: dict[bytes, tuple[model.Pod, set[model.NodeName]]] = {}
        """The spelling of what a pod wants -> one such pod, and the nodes that it fits on."""
        self._placed: dict[model.Uid, model.NodeName] = {}

    def of(self, pod: model.Pod) -> frozenset[model.NodeName]:
        """The nodes that the pod fits on. It is not in its own way.

        Pods of at least its priority that are nominated for a node count there, as for kube-scheduler.
        """
        names = set(self._alike(pod))
        nominated: dict[model.NodeName, list[model.Pod]] = {}
        for one in self._snapshot.nominated_before(pod):
            if one.uid not in self._placed:
                nominated.setdefault(one.nominated, []).append(one)
        own = self._node_of(pod)
        for name in filter(self._exists, {*nominated, own}):
            held = self._occupancy(name)
            if name == own and node_sums.holding(pod):
                held = held.without(self._snapshot.pod(pod.uid) or pod)
            for one in nominated.get(name, ()):
                held = held.plus(one)
            _keep(names, name, self._fits(pod, name, held))
        return frozenset(names)

    def place(self, pod: model.Pod, node: model.NodeName) -> None:
        """Count the pod on the node, and no longer where it was."""
        before = self._node_of(pod)
        if self._exists(before):
            self._held[before] = self._occupancy(before).without(self._snapshot.pod(pod.uid) or pod)
        self._held[node] = self._occupancy(node).plus(pod)
        self._placed[pod.uid] = node
        for name in filter(self._exists, {before, node}):
            for example, names in self._found.values():
                _keep(names, name, self._fits(example, name, self._held[name]))

    def _alike(self, pod: model.Pod) -> Iterable[model.NodeName]:
        """The nodes that a pod which wants the same and is nowhere yet fits on."""
        spelled = _spelling.encode((pod.constraints, pod.requests))
        known = self._found.get(spelled)
        if known is None:
            names = {name for name in self._snapshot.nodes if self._fits(pod, name, self._occupancy(name))}
            known = self._found[spelled] = pod, names
        return known[1]

    def _exists(self, name: model.NodeName) -> bool:
        return name in self._snapshot.nodes

    def _fits(self, pod: model.Pod, name: model.NodeName, held: node_fit.Occupancy) -> bool:
        node = self._snapshot.nodes[name]
        return not (node_fit.refused(pod, node) or node_fit.crowded(pod, node, held))

    def _occupancy(self, name: model.NodeName) -> node_fit.Occupancy:
        found = self._held.get(name)
        if found is None:
            found = self._held[name] = node_fit.occupancy(self._snapshot, name)
        return found

    def _node_of(self, pod: model.Pod) -> model.NodeName:
        """Where the pod occupies a node; empty if nowhere."""
        placed = self._placed.get(pod.uid)
        if placed is not None:
            return placed
        known = self._snapshot.pod(pod.uid)
        return self._snapshot.node_of(pod.uid) if known is not None and node_sums.holding(known) else ""


def _keep(names: set[model.NodeName], name: model.NodeName, fits: bool) -> None:
    if fits:
        names.add(name)
    else:
        names.discard(name)
