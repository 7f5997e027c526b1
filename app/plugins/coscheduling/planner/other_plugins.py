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
        self._summed: dict[model.Uid, tuple[str, ...]] = {}
        """Member that all the others refuse by sums -> the labels of nodes by which they sum."""
        self._kinds: dict[model.Uid, Hashable] = {}
        """Member that some other plugin may refuse -> a key, equal for members that get the same answers."""
        concerned: dict[Hashable, bool] = {}
        for pod in pods:
            summed = peers.summed(pod, snapshot)
            kind = _alike(pod) if summed is None else summed
            if kind not in concerned:
                concerned[kind] = peers.concerned(pod, snapshot)
            if concerned[kind]:
                self._kinds[pod.uid] = kind
            if summed is not None:
                self._summed[pod.uid] = summed.labels
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
            same = kind, self._part(pod, name)
            why = answers.get(same)
            if why is None:
                apart = projections.project(ahead, events.not_placed(pod, name))
                why = answers[same] = self._refused_nodes(pod, frozenset((name,)), apart)[1]
            if why:
                self.why = why
                found.append(pod.uid)
        return found

    def _part(self, pod: model.Pod, name: model.NodeName) -> Hashable:
        """Equal for nodes on which the member is refused alike, and counts alike for others of its kind."""
        labels = self._summed.get(pod.uid)
        if labels is None:
            return name
        values = self._snapshot.nodes[name].labels
        return tuple([values.get(label) for label in labels])

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
        at = dict(seats)
        ahead, spare = self._snapshot, len(seats) - len(required)
        seated = (pod for pod in self._pods if pod.uid in seats)
        runs = collections.deque(self._runs(sorted(seated, key=lambda pod: pod.uid not in required), at))
        near = self._nearest(domain)
        full: dict[Hashable, set[model.NodeName]] = {}
        """Size -> nodes on which no further member of that size fits."""
        nowhere: dict[Hashable, str] = {}
        """Run of which no member is admitted anywhere in the present state -> why."""
        latest: tuple[model.Pod, snapshots.Snapshot] | None = None
        """The latest member that was moved unasked, and the state with it."""
        while runs:
            key, run = runs.popleft()
            if key not in nowhere:
                count, ahead = self._first_admitted(run, at, ahead, run[-1].uid not in refused)
                if count:
                    kept.update((pod.uid, at[pod.uid]) for pod in run[:count])
                    nowhere.clear()
                    last, run = run[count - 1], run[count:]
                    if at[last.uid] != seats[last.uid]:
                        latest = last, ahead
                if not run:
                    continue
                first, latest = run[0], None
                self.why = self._refused_nodes(first, frozenset((seats[first.uid],)), ahead)[1] or self.why
                size = capacities.size(first)
                moved = self._instead(run, ahead, near, at, full.setdefault(size, set()))
                if moved:
                    for names in full.values():
                        names.difference_update([at[uid] for uid in moved])
                    # The first is admitted there. The others are as far as the sums admit them.
                    at.update(moved)
                    kept[first.uid] = at[first.uid]
                    ahead = _with_seats(ahead, (first,), at)
                    nowhere.clear()
                    if run[len(moved) :]:
                        runs.appendleft((key, run[len(moved) :]))
                    runs.extendleft(reversed(self._runs(run[1 : len(moved)], at)))
                    continue
                nowhere[key] = self.why
            self.why, latest = nowhere[key], None
            spare -= len(run)
            if spare < 0:
                break
        if latest is not None:
            pod, ahead = latest
            apart = projections.project(ahead, events.not_placed(pod, at[pod.uid]))
            self.why = self._refused_nodes(pod, frozenset((seats[pod.uid],)), apart)[1] or self.why
        return kept

    def _runs(
        self, pods: Iterable[model.Pod], seats: Mapping[model.Uid, model.NodeName]
    ) -> list[tuple[Hashable, list[model.Pod]]]:
        """The members in order: those together that get the same answers and stay refused once one is.

        They have one size, and seats on nodes that are alike to the other plugins: each run with its key.
        """
        found: list[tuple[Hashable, list[model.Pod]]] = []
        lasting: dict[Hashable, bool] = {}
        for pod in pods:
            kind = self._kinds.get(pod.uid)
            if kind not in lasting:
                summed = pod.uid in self._summed
                lasting[kind] = kind is None or (summed and self._peers.stays_refused(pod, self._snapshot))
            key = kind and (kind, self._part(pod, seats[pod.uid]), capacities.size(pod))
            if found and lasting[kind] and found[-1][0] == key:
                found[-1][1].append(pod)
            else:
                found.append((key, [pod]))
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
        if run[0].uid not in self._kinds:
            return len(run), _with_seats(ahead, run, seats)
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

    def _nearest(self, domain: Path) -> list[model.NodeName]:
        """The nodes in the demanded domain around this one, the nearest first."""
        paths, demanded = self._demands.tree.paths, domain[: self._demands.must]
        inside = [name for name in paths if domains.within(paths[name], demanded)]
        return sorted(inside, key=lambda name: (-domains.common(paths[name], domain), paths[name], name))

    def _instead(
        self,
        run: Sequence[model.Pod],
        ahead: snapshots.Snapshot,
        near: Sequence[model.NodeName],
        at: Mapping[model.Uid, model.NodeName],
        full: set[model.NodeName],
    ) -> dict[model.Uid, model.NodeName]:
        """Other nodes for members of a run, that all plugins admit now: the first ones get the nearest.

        ``near``: the nodes in question; ``at``: where each member counts as long as it is not moved;
        ``full``: nodes on which none of the run fits, to which those that are found are added.
        """
        everywhere = frozenset(self._demands.tree.paths)
        refusals = self._peers.refusals(run[0], everywhere, ahead)
        left = everywhere - node_sets.union(*(one.nodes for one in refusals)) if refusals else everywhere
        if len(near) < len(everywhere):
            self.elsewhere = self.elsewhere or not left.issubset(near)
        found: dict[model.Uid, model.NodeName] = {}
        if self._demands.multiples or not left:
            return found
        capacity = self._capacity()
        there: dict[model.NodeName, list[model.Pod]] = {}
        for other in self._pods:
            if other.uid in at and other.uid != run[0].uid:
                there.setdefault(at[other.uid], []).append(other)
        waiting = iter(run)
        pod = next(waiting)
        for name in near:
            if name in full or name not in left:
                continue
            for other in there.get(name, ()):
                capacity.put(other, name)
            while capacity.fits(pod, name):
                capacity.put(pod, name)
                found[pod.uid] = name
                after = next(waiting, None)
                if after is None:
                    return found
                pod = after
            full.add(name)
        return found


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
