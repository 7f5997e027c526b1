"""What other plugins answer about the members of a plan: each is asked beside all others."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.domain import events, model, node_sets, projections, snapshots
from app.framework import cycles
from app.plugins.coscheduling.planner import capacities, domains
from app.plugins.coscheduling.planner.domains import Path


class Others:
    """The other plugins, for one plan."""

    def __init__(
        self,
        peers: cycles.Peers,
        snapshot: snapshots.Snapshot,
        pods: Sequence[model.Pod],
        demands: domains.Demands,
        capacity: Callable[[], capacities.Capacities],
    ) -> None:
        """``pods``: all members that the plan is for; ``capacity``: that of the state without them."""
        self._peers = peers
        self._snapshot = snapshot
        self._pods = pods
        self._demands = demands
        self._capacity = capacity
        self._concerned = frozenset(pod.uid for pod in pods if peers.concerned(pod, snapshot))
        self.why = ""
        """The reason of the latest refusal of a member."""
        self.limiting = False
        """Whether a member was refused beside others."""
        self.elsewhere = False
        """Whether a member that was refused may be admitted outside of the domain that was tried."""

    def refused(self, pods: Iterable[model.Pod]) -> dict[model.Uid, node_sets.Names]:
        """The nodes that are refused to each member, before any other is placed."""
        found: dict[model.Uid, node_sets.Names] = {}
        answers: dict[Hashable, node_sets.Names] = {}
        everywhere = self._snapshot.topology.everywhere
        for pod in pods:
            if pod.uid not in self._concerned:
                continue
            same = _alike(pod)
            nodes = answers.get(same)
            if nodes is None:
                nodes = answers[same] = self._refused_nodes(pod, everywhere, self._snapshot)
            found[pod.uid] = nodes
        return found

    def _refused_nodes(
        self, pod: model.Pod, nodes: node_sets.Names, ahead: snapshots.Snapshot
    ) -> node_sets.Names:
        refusals = self._peers.refusals(pod, nodes, ahead)
        if not refusals:
            return node_sets.NONE
        refused = node_sets.union(*(refusal.nodes for refusal in refusals))
        if len(refused) == len(nodes):
            self.why = refusals[0].reason
        return refused

    def beside(self, seats: Mapping[model.Uid, model.NodeName]) -> "Beside":
        """The members that have these seats, as a part of an arrangement."""
        found = Beside(self, self._snapshot)
        for pod in self._pods:
            if pod.uid in seats:
                found = found.plus(pod, seats[pod.uid])
        return found

    def kind(self, pod: model.Pod) -> Hashable:
        """Pods of one size for which this is equal get the same answers."""
        return _alike(pod) if pod.uid in self._concerned else None

    def allowed(self, pod: model.Pod, nodes: node_sets.Names, ahead: snapshots.Snapshot) -> node_sets.Names:
        """Those of the nodes to which the member is admitted in a state."""
        return nodes - self._refused_nodes(pod, nodes, ahead) if pod.uid in self._concerned else nodes

    def ahead(self, snapshot: snapshots.Snapshot, pod: model.Pod, name: model.NodeName) -> snapshots.Snapshot:
        """The state with the member on the node; the same if no other plugin looks at any member."""
        return projections.project(snapshot, events.placed(pod, name)) if self._concerned else snapshot

    def refuse_there(self, pod: model.Pod, name: model.NodeName) -> bool:
        """Whether the member is refused on the node, before any other is placed."""
        if pod.uid not in self._concerned:
            return False
        return bool(self._refused_nodes(pod, frozenset((name,)), self._snapshot))

    def admitted(
        self,
        seats: Mapping[model.Uid, model.NodeName],
        domain: Path,
        required: Collection[model.Uid],
    ) -> dict[model.Uid, model.NodeName]:
        """The seats that are admitted, those required first: each beside all others.

        So quotas limit the plan as a sum, and it does not matter which member is bound first.
        """
        if not self._concerned or not self._refused_beside(seats):
            return self._in_order(seats)
        self.limiting = True
        kept = self._one_by_one(seats, domain, required)
        while len(kept) >= len(required) and (refused := self._refused_beside(kept)):
            # Members that are not required may use what the others need.
            spare = [uid for uid in kept if uid not in required]
            too_many = [uid for uid in refused if uid not in required]
            gone = too_many[len(too_many) // 2 :] or spare or refused
            kept = {uid: name for uid, name in kept.items() if uid not in gone}
        return self._in_order(kept)

    def _in_order(self, seats: Mapping[model.Uid, model.NodeName]) -> dict[model.Uid, model.NodeName]:
        return {pod.uid: seats[pod.uid] for pod in self._pods if pod.uid in seats}

    def _refused_beside(self, seats: Mapping[model.Uid, model.NodeName]) -> list[model.Uid]:
        """The members that are refused in the state in which all others are placed."""
        pods = [pod for pod in self._pods if pod.uid in seats]
        placements = tuple([model.Placement(pod=pod, node=seats[pod.uid]) for pod in pods])
        ahead = projections.project(self._snapshot, events.PlacementsCommitted(placements=placements))
        found: list[model.Uid] = []
        answers: dict[Hashable, bool] = {}
        for pod in pods:
            if pod.uid not in self._concerned:
                continue
            name = seats[pod.uid]
            same = name, _alike(pod)
            if same not in answers:
                apart = projections.project(ahead, events.not_placed(pod, name))
                refusals = self._peers.refusals(pod, frozenset((name,)), apart)
                answers[same] = bool(refusals)
                if refusals:
                    self.why = refusals[0].reason
                ahead = projections.project(apart, events.placed(pod, name))
            if answers[same]:
                found.append(pod.uid)
        return found

    def _one_by_one(
        self,
        seats: Mapping[model.Uid, model.NodeName],
        domain: Path,
        required: Collection[model.Uid],
    ) -> dict[model.Uid, model.NodeName]:
        """The seats that are admitted one after the other, some of them on other nodes.

        Not continued once too few are left.
        """
        kept: dict[model.Uid, model.NodeName] = {}
        ahead, spare = self._snapshot, len(seats) - len(required)
        for pod in sorted(self._pods, key=lambda pod: pod.uid not in required):
            name = seats.get(pod.uid)
            if name is None:
                continue
            if pod.uid in self._concerned:
                refusals = self._peers.refusals(pod, frozenset((name,)), ahead)
                if refusals:
                    self.why = refusals[0].reason
                    name = self._instead(pod, ahead, domain, seats, kept)
                    if name is None:
                        spare -= 1
                        if spare < 0:
                            break
                        continue
            kept[pod.uid] = name
            ahead = projections.project(ahead, events.placed(pod, name))
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
        capacity = self._capacity()
        for other in self._pods:
            if other.uid in seats and other.uid != pod.uid:
                capacity.put(other, kept.get(other.uid, seats[other.uid]))
        nearest = sorted(inside, key=lambda name: (-domains.common(paths[name], domain), name))
        return next((name for name in nearest if capacity.fits(pod, name)), None)


@dataclass(frozen=True, slots=True)
class Beside:
    """Members on nodes, beside whom others judge a further one."""

    others: Others
    snapshot: snapshots.Snapshot
    """The state with these members."""

    def allowed(self, pod: model.Pod, nodes: node_sets.Names) -> node_sets.Names:
        """Those of the nodes to which the member is admitted."""
        return self.others.allowed(pod, nodes, self.snapshot)

    def plus(self, pod: model.Pod, name: model.NodeName) -> "Beside":
        """The same with the member on the node."""
        return Beside(self.others, self.others.ahead(self.snapshot, pod, name))


def _alike(pod: model.Pod) -> Hashable:
    """Members for which this is equal get the same answers."""
    return pod.namespace, repr(pod.labels), repr(pod.requests), pod.priority, pod.owners
