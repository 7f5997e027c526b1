"""What other plugins answer about the members of a plan: each is asked beside the members before it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from app.domain import events, model, node_sets, projecting, snapshots
from app.framework import cycles
from app.plugins.coscheduling.planning import domains, rooms
from app.plugins.coscheduling.planning.domains import Path


class Others:
    """The other plugins, for one plan."""

    def __init__(
        self,
        peers: cycles.Peers,
        snapshot: snapshots.Snapshot,
        pods: Sequence[model.Pod],
        demands: domains.Demands,
        room: Callable[[], rooms.Rooms],
    ) -> None:
        """``pods``: all members that the plan is for; ``room``: the room of the state, without them."""
        self._peers = peers
        self._snapshot = snapshot
        self._pods = pods
        self._demands = demands
        self._room = room
        self._concerned = frozenset(pod.uid for pod in pods if peers.concerned(pod, snapshot))
        self.why = ""
        """The reason of the latest refusal of a member."""
        self.elsewhere = False
        """Whether a member that was refused may be admitted outside of the domain that was tried."""

    def refused(self, pods: Iterable[model.Pod]) -> dict[model.Uid, node_sets.Names]:
        """The nodes that are refused to each member, before any other is placed."""
        found: dict[model.Uid, node_sets.Names] = {}
        alike: dict[Any, node_sets.Names] = {}
        for pod in pods:
            if pod.uid not in self._concerned:
                continue
            same = pod.namespace, repr(pod.labels), repr(pod.requests), pod.priority, pod.owners
            nodes = alike.get(same)
            if nodes is None:
                nodes = alike[same] = self._refused_nodes(pod, self._snapshot.topology.everywhere)
            found[pod.uid] = nodes
        return found

    def _refused_nodes(self, pod: model.Pod, nodes: node_sets.Names) -> node_sets.Names:
        refusals = self._peers.refusals(pod, nodes, self._snapshot)
        if not refusals:
            return node_sets.NONE
        refused = node_sets.union(*(refusal.nodes for refusal in refusals))
        if len(refused) == len(nodes):
            self.why = refusals[0].reason
        return refused

    def refuse_there(self, pod: model.Pod, name: model.NodeName) -> bool:
        """Whether the member is refused on the node, before any other is placed."""
        if pod.uid not in self._concerned:
            return False
        return bool(self._refused_nodes(pod, frozenset((name,))))

    def admitted(
        self, seats: Mapping[model.Uid, model.NodeName], domain: Path
    ) -> dict[model.Uid, model.NodeName]:
        """The seats that are admitted one after the other: quotas limit the plan as a whole."""
        if not self._concerned:
            return {pod.uid: seats[pod.uid] for pod in self._pods if pod.uid in seats}
        kept: dict[model.Uid, model.NodeName] = {}
        ahead = self._snapshot
        for pod in self._pods:
            name = seats.get(pod.uid)
            if name is None:
                continue
            if pod.uid in self._concerned:
                refusals = self._peers.refusals(pod, frozenset((name,)), ahead)
                if refusals:
                    self.why = refusals[0].reason
                    name = self._instead(pod, ahead, domain, seats, kept)
                    if name is None:
                        continue
            kept[pod.uid] = name
            ahead = projecting.project(ahead, events.placed(pod, name))
        return kept

    def _instead(
        self,
        pod: model.Pod,
        ahead: snapshots.Snapshot,
        domain: Path,
        seats: Mapping[model.Uid, model.NodeName],
        kept: Mapping[model.Uid, model.NodeName],
    ) -> model.NodeName | None:
        """Another node that all plugins admit beside the other seats: near the domain, in that demanded."""
        paths = self._demands.tree.paths
        everywhere = frozenset(paths)
        refusals = self._peers.refusals(pod, everywhere, ahead)
        left = everywhere - node_sets.union(*(one.nodes for one in refusals)) if refusals else everywhere
        demanded = domain[: self._demands.must]
        inside = frozenset(name for name in left if domains.within(paths[name], demanded))
        self.elsewhere = self.elsewhere or len(inside) < len(left)
        if self._demands.multiples:
            return None
        room = self._room()
        for other in self._pods:
            if other.uid in seats and other.uid != pod.uid:
                room.put(other, kept.get(other.uid, seats[other.uid]))
        nearest = sorted(inside, key=lambda name: (-domains.common(paths[name], domain), name))
        return next((name for name in nearest if room.fits(pod, name)), None)
