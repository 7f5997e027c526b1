"""What other plugins answer about the members of a plan: each is asked beside all others."""

import collections
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
        self._summed: set[model.Uid] = set()
        """Members that all the others refuse by sums of the cluster."""
        self._kinds: dict[model.Uid, Hashable] = {}
        """Member that some other plugin may refuse -> a key, equal for members that get the same answers."""
        concerned: dict[Hashable, bool] = {}
        for pod in pods:
            summed = peers.summed(pod, snapshot)
            kind = _alike(pod) if summed is None else ("summed", summed)
            if kind not in concerned:
                concerned[kind] = peers.concerned(pod, snapshot)
            if concerned[kind]:
                self._kinds[pod.uid] = kind
            if summed is not None:
                self._summed.add(pod.uid)
        self.why = ""
        """The reason of the latest refusal of a member."""
        self.limiting = False
        """Whether a member was refused beside others."""
        self.elsewhere = False
        """Whether a member that was refused may be admitted outside of the domain that was tried."""

    def refused(self, pods: Iterable[model.Pod]) -> dict[model.Uid, node_sets.Names]:
        """The nodes that are refused to each member, before any other is placed."""
        found: dict[model.Uid, node_sets.Names] = {}
        answers: dict[Hashable, tuple[node_sets.Names, str]] = {}
        everywhere = self._snapshot.topology.everywhere
        for pod in pods:
            kind = self._kinds.get(pod.uid)
            if kind is None:
                continue
            if kind not in answers:
                answers[kind] = self._refused_nodes(pod, everywhere, self._snapshot)
            found[pod.uid], why = answers[kind]
            self.why = why or self.why
        return found

    def _refused_nodes(
        self, pod: model.Pod, nodes: node_sets.Names, ahead: snapshots.Snapshot
    ) -> tuple[node_sets.Names, str]:
        """Those of the nodes that are refused, and why if all are."""
        refusals = self._peers.refusals(pod, nodes, ahead)
        if not refusals:
            return node_sets.NONE, ""
        refused = node_sets.union(*(refusal.nodes for refusal in refusals))
        return refused, refusals[0].reason if len(refused) == len(nodes) else ""

    def beside(self, seats: Mapping[model.Uid, model.NodeName]) -> "Beside":
        """The members that have these seats, as a part of an arrangement."""
        found = Beside(self, self._snapshot)
        for pod in self._pods:
            if pod.uid in seats:
                found = found.plus(pod, seats[pod.uid])
        return found

    def kind(self, pod: model.Pod) -> Hashable:
        """Pods of one size for which this is equal get the same answers."""
        return _alike(pod) if pod.uid in self._kinds else None

    def allowed(self, pod: model.Pod, nodes: node_sets.Names, ahead: snapshots.Snapshot) -> node_sets.Names:
        """Those of the nodes to which the member is admitted in a state."""
        if pod.uid not in self._kinds:
            return nodes
        refused, why = self._refused_nodes(pod, nodes, ahead)
        self.why = why or self.why
        return nodes - refused

    def ahead(self, snapshot: snapshots.Snapshot, pod: model.Pod, name: model.NodeName) -> snapshots.Snapshot:
        """The state with the member on the node; the same if no other plugin looks at any member."""
        return projections.project(snapshot, events.placed(pod, name)) if self._kinds else snapshot

    def refuse_there(self, pod: model.Pod, name: model.NodeName) -> bool:
        """Whether the member is refused on the node, before any other is placed."""
        if pod.uid not in self._kinds:
            return False
        refused, why = self._refused_nodes(pod, frozenset((name,)), self._snapshot)
        self.why = why or self.why
        return bool(refused)

    def admitted(
        self,
        seats: Mapping[model.Uid, model.NodeName],
        domain: Path,
        required: Collection[model.Uid],
    ) -> dict[model.Uid, model.NodeName]:
        """The seats that are admitted, those required first: each beside all others.

        So quotas limit the plan as a sum, and it does not matter which member is bound first.
        """
        refused = self._refused_beside(seats) if self._kinds else []
        if not refused:
            return self._in_order(seats)
        self.limiting = True
        kept = self._one_by_one(seats, domain, required, frozenset(refused))
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
        ahead = _with_seats(self._snapshot, pods, seats)
        found: list[model.Uid] = []
        answers: dict[Hashable, str] = {}
        for pod in pods:
            kind = self._kinds.get(pod.uid)
            if kind is None:
                continue
            name = seats[pod.uid]
            # Those that are refused by sums are asked about once, wherever they are.
            same = kind if pod.uid in self._summed else (name, kind)
            why = answers.get(same)
            if why is None:
                apart = projections.project(ahead, events.not_placed(pod, name))
                why = answers[same] = self._refused_nodes(pod, frozenset((name,)), apart)[1]
            if why:
                self.why = why
                found.append(pod.uid)
        return found

    def _one_by_one(
        self,
        seats: Mapping[model.Uid, model.NodeName],
        domain: Path,
        required: Collection[model.Uid],
        refused: Collection[model.Uid],
    ) -> dict[model.Uid, model.NodeName]:
        """The seats that are admitted one after the other, some of them on other nodes.

        Not continued once too few are left. ``refused``: those that are refused beside all others.
        """
        kept: dict[model.Uid, model.NodeName] = {}
        ahead, spare = self._snapshot, len(seats) - len(required)
        seated = (pod for pod in self._pods if pod.uid in seats)
        runs = collections.deque(self._runs(sorted(seated, key=lambda pod: pod.uid not in required)))
        nowhere: dict[Hashable, str] = {}
        """Kind of which no member is admitted anywhere in the present state -> why."""
        while runs:
            run = runs.popleft()
            kind = self._kinds.get(run[0].uid)
            if len(run) > 1 and kind not in nowhere:
                count, ahead = self._first_admitted(run, seats, ahead, run[-1].uid not in refused)
                kept.update((pod.uid, seats[pod.uid]) for pod in run[:count])
                run = run[count:]
                if count:
                    nowhere.clear()
                if not run:
                    continue
            pod, rest = run[0], run[1:]
            if rest:
                runs.appendleft(rest)
            name: model.NodeName | None = seats[pod.uid]
            if kind in nowhere:
                name, self.why = None, nowhere[kind]
            elif kind is not None:
                why = self._refused_nodes(pod, frozenset((seats[pod.uid],)), ahead)[1]
                if why:
                    self.why = why
                    name = self._instead(pod, ahead, domain, seats, kept)
                    if name is None and pod.uid in self._summed:
                        nowhere[kind] = why
            if name is None:
                spare -= 1
                if spare < 0:
                    break
                continue
            kept[pod.uid] = name
            ahead = projections.project(ahead, events.placed(pod, name))
            nowhere.clear()
        return kept

    def _runs(self, pods: Iterable[model.Pod]) -> list[list[model.Pod]]:
        """The members in order: those together that are one kind, and stay refused once one is refused."""
        found: list[list[model.Pod]] = []
        former: Hashable = None
        for pod in pods:
            kind = self._kinds.get(pod.uid)
            lasting = pod.uid in self._summed and self._peers.stays_refused(pod, self._snapshot)
            if kind is not None and lasting and kind == former:
                found[-1].append(pod)
            else:
                found.append([pod])
            former = kind if lasting else None
        return found

    def _first_admitted(
        self,
        run: Sequence[model.Pod],
        seats: Mapping[model.Uid, model.NodeName],
        ahead: snapshots.Snapshot,
        likely: bool,
    ) -> tuple[int, snapshots.Snapshot]:
        """How many members of a run are admitted one after the other, and the state with them.

        Found by bisection: none is admitted after one that is refused. ``likely``: probably all are.
        """
        low, high = 0, len(run)
        middle = high if likely else (high + 1) // 2
        while low < high:
            last = run[middle - 1]
            before = _with_seats(ahead, run[low : middle - 1], seats)
            if self._refused_nodes(last, frozenset((seats[last.uid],)), before)[0]:
                high = middle - 1
            else:
                low, ahead = middle, _with_seats(before, (last,), seats)
            middle = (low + high + 1) // 2
        return low, ahead

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
        if self._demands.multiples or not inside:
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


def _with_seats(
    snapshot: snapshots.Snapshot, pods: Iterable[model.Pod], seats: Mapping[model.Uid, model.NodeName]
) -> snapshots.Snapshot:
    """The state in which the members are placed on the nodes of their seats."""
    placements = tuple([model.Placement(pod=pod, node=seats[pod.uid]) for pod in pods])
    if not placements:
        return snapshot
    return projections.project(snapshot, events.PlacementsCommitted(placements=placements))


def _alike(pod: model.Pod) -> Hashable:
    """Members for which this is equal get the same answers."""
    written = repr((pod.labels, pod.annotations, pod.requests))
    return pod.namespace, written, pod.priority, pod.scheduler, pod.owners
