"""The nodes that pods fit on by kube-scheduler's rules, while supposed pods are placed one by one."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from app.domain import model, snapshots
from app.domain.fit import node_fit
from app.domain.fold import node_sums

NO_NODES: Final = "there is no node in the cluster"
_spelling = msgspec.json.Encoder(order="deterministic")


class FittingNodes:
    """The nodes of one snapshot that a pod fits on, and what the pods that are placed meanwhile take.

    The nodes are found once for all pods that are alike; a placement is then evaluated for one node each.
    """

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self._snapshot = snapshot
        self._names = frozenset(snapshot.nodes)
        self._held: dict[model.NodeName, node_fit.Occupancy] = {}
        self._found: dict[bytes, tuple[model.Pod, dict[model.NodeName, node_fit.Reasons]]] = {}
        """The spelling of what a pod wants -> one such pod, and the nodes that it does not fit on."""
        self._placed: dict[model.Uid, model.NodeName] = {}

    def of(self, pod: model.Pod) -> frozenset[model.NodeName]:
        """The nodes that the pod fits on. It is not in its own way.

        Pods of at least its priority that are nominated for a node count there, as for kube-scheduler.
        """
        return self._names.difference(self._refusals(pod))

    def nowhere(self, pod: model.Pod) -> str:
        """Why the pod has no candidate, in one sentence."""
        if not self._names:
            return NO_NODES
        refusals, number = self._refusals(pod), len(self._names)
        text = f"{number - len(refusals)} of {number} nodes fit by kube-scheduler's own rules"
        if len(refusals) < number:
            return f"{text}, and none of them is a candidate"
        reasons = Counter(reason.text for found in refusals.values() for reason in found)
        return f"{text}: {'; '.join(f'{nodes} {reason}' for reason, nodes in sorted(reasons.items()))}"

    def place(self, pod: model.Pod, node: model.NodeName) -> None:
        """Count the pod on the node, and no longer where it was."""
        before = self._node_of(pod)
        if before in self._names:
            self._held[before] = self._occupancy(before).without(self._snapshot.pod(pod.uid) or pod)
        self._held[node] = self._occupancy(node).plus(pod)
        self._placed[pod.uid] = node
        for name in self._names & {before, node}:
            for example, refusals in self._found.values():
                _note(refusals, name, self._refused(example, name, self._held[name]))

    def _refusals(self, pod: model.Pod) -> Mapping[model.NodeName, node_fit.Reasons]:
        """Why the pod does not fit on the other nodes."""
        refusals = self._alike(pod)
        nominated: dict[model.NodeName, list[model.Pod]] = {}
        for one in self._snapshot.nominated_before(pod):
            if one.uid not in self._placed:
                nominated.setdefault(one.nominated, []).append(one)
        own = self._node_of(pod)
        special = self._names & {*nominated, own}
        if special:
            refusals = dict(refusals)
        for name in special:
            held = self._occupancy(name)
            if name == own and node_sums.holding(pod):
                held = held.without(self._snapshot.pod(pod.uid) or pod)
            for one in nominated.get(name, ()):
                held = held.plus(one)
            _note(refusals, name, self._refused(pod, name, held))
        return refusals

    def _alike(self, pod: model.Pod) -> dict[model.NodeName, node_fit.Reasons]:
        """The nodes that a pod which wants the same and is nowhere yet does not fit on."""
        spelled = _spelling.encode((pod.constraints, pod.requests))
        known = self._found.get(spelled)
        if known is None:
            refusals: dict[model.NodeName, node_fit.Reasons] = {}
            for name in self._snapshot.nodes:
                _note(refusals, name, self._refused(pod, name, self._occupancy(name)))
            known = self._found[spelled] = pod, refusals
        return known[1]

    def _refused(self, pod: model.Pod, name: model.NodeName, held: node_fit.Occupancy) -> node_fit.Reasons:
        node = self._snapshot.nodes[name]
        return node_fit.refused(pod, node) or node_fit.crowded(pod, node, held)

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


def _note(
    refusals: dict[model.NodeName, node_fit.Reasons], name: model.NodeName, reasons: node_fit.Reasons
) -> None:
    if reasons:
        refusals[name] = reasons
    else:
        refusals.pop(name, None)
