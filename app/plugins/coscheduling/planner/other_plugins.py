"""Asks the other plugins about the members of a plan: each member beside all others."""

import collections
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.domain import events, model, node_sets, projections, snapshots
from app.framework import cycles
from app.plugins.coscheduling.planner import capacities, domains, nearest_nodes
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
        self._kinds: dict[model.Uid, int] = {}
        """Member that others may refuse -> a number, equal for members that get the same answers."""
        numbers: dict[Hashable, int | None] = {}
        for pod in pods:
            summed = peers.summed(pod, snapshot)
            kind = capacities.alike(pod) if summed is None else summed
            if kind not in numbers:
                numbers[kind] = len(numbers) if peers.concerned(pod, snapshot) else None
            number = numbers[kind]
            if number is not None:
                self._kinds[pod.uid] = number
            if summed is not None:
                self._summed[pod.uid] = summed.labels
        self._by_sums = all(pod.uid in self._summed for pod in pods)
        """Whether no more is read of members with seats than the counts that they raise."""
        self._alike: dict[tuple[str, ...], Mapping[model.NodeName, Hashable]] = {}
        """Labels -> the part of each node."""
        self._sizes: dict[model.Uid, Hashable] = {}
        self._nearest: dict[Path, nearest_nodes.NearestNodes] = {}
        """Domain -> the nodes around it."""
        self.why = ""
        """The reason of the latest refusal of a member."""
        self.limiting = False
        """Whether a member was refused beside others."""
        self.elsewhere = False
        """Whether a member that was refused may be admitted outside of the domain that was tried."""

    def refused(
        self, pods: Iterable[model.Pod], required: Collection[model.Uid] = ()
    ) -> dict[model.Uid, node_sets.Names]:
        """The nodes that are refused to each member, before any other is placed.

        The others do not wait for one that is not required: why it is refused everywhere is no reason.
        """
        found: dict[model.Uid, node_sets.Names] = {}
        answers: dict[int, tuple[node_sets.Names, str]] = {}
        everywhere = self._snapshot.topology.everywhere
        for pod in pods:
            kind = self._kinds.get(pod.uid)
            if kind is None:
                continue
            if kind not in answers:
                answers[kind] = self._refused_nodes(pod, everywhere, self._snapshot)
            found[pod.uid], why = answers[kind]
            if why and pod.uid in required:
                self.why = why
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
        return capacities.alike(pod) if pod.uid in self._kinds else None

    def allowed(self, pod: model.Pod, nodes: node_sets.Names, ahead: snapshots.Snapshot) -> node_sets.Names:
        """Those of the nodes to which the member is admitted in a state."""
        if pod.uid not in self._kinds:
            return nodes
        refused, why = self._refused_nodes(pod, nodes, ahead)
        self.why = why or self.why
        return nodes - refused

    def ahead(self, snapshot: snapshots.Snapshot, pod: model.Pod, name: model.NodeName) -> snapshots.Snapshot:
        """The state with the member on the node; the same if no other plugin judges any member."""
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
        own: collections.Counter[model.NodeName],
    ) -> dict[model.Uid, model.NodeName]:
        """The seats that are admitted, those required first: each beside all others.

        So quotas limit the plan as a sum, and it does not matter which member is bound first. ``own``: the
        members that are there already, which multiples count.
        """
        refused = self._refused_beside(seats, self._with(seats)) if self._kinds else []
        if not refused:
            return self._in_order(seats)
        self.limiting = True
        kept, ahead = self._one_by_one(seats, domain, required, frozenset(refused))
        if self._demands.multiples:
            kept = domains.complete(self._demands, own, kept)
            ahead = self._with(kept)
        while len(kept) >= len(required) and (refused := self._refused_beside(kept, ahead)):
            # Members that are not required may use what the others need.
            spare = [uid for uid in kept if uid not in required]
            too_many = [uid for uid in refused if uid not in required]
            gone = too_many[len(too_many) // 2 :] or spare or refused
            kept = {uid: name for uid, name in kept.items() if uid not in gone}
            kept = domains.complete(self._demands, own, kept)
            ahead = self._with(kept)
        return self._in_order(kept)

    def _with(self, seats: Mapping[model.Uid, model.NodeName]) -> snapshots.Snapshot:
        """The state in which the members with these seats are placed."""
        return self._placed(self._snapshot, [pod for pod in self._pods if pod.uid in seats], seats)

    def _placed(
        self, ahead: snapshots.Snapshot, pods: Iterable[model.Pod], seats: Mapping[model.Uid, model.NodeName]
    ) -> snapshots.Snapshot:
        """A state with further members on the nodes of their seats."""
        if not self._by_sums:
            placements = tuple([model.Placement(pod=pod, node=seats[pod.uid]) for pod in pods])
            placed = events.PlacementsCommitted(placements=placements)
            return projections.project(ahead, placed) if placements else ahead
        return ahead.counting([(pod, seats[pod.uid]) for pod in pods])

    def _apart(self, ahead: snapshots.Snapshot, pod: model.Pod, name: model.NodeName) -> snapshots.Snapshot:
        """A state without a member that is on the node there."""
        if not self._by_sums:
            return projections.project(ahead, events.not_placed(pod, name))
        return ahead.counting([(pod, name)], -1)

    def _in_order(self, seats: Mapping[model.Uid, model.NodeName]) -> dict[model.Uid, model.NodeName]:
        return {pod.uid: seats[pod.uid] for pod in self._pods if pod.uid in seats}

    def _refused_beside(
        self, seats: Mapping[model.Uid, model.NodeName], ahead: snapshots.Snapshot
    ) -> list[model.Uid]:
        """The members that are refused beside all others. ``ahead``: the state in which all are placed."""
        found: list[model.Uid] = []
        answers: dict[Hashable, str] = {}
        for pod in self._pods:
            kind = self._kinds.get(pod.uid)
            if kind is None or pod.uid not in seats:
                continue
            name = seats[pod.uid]
            same = kind, self._part(pod, name)
            why = answers.get(same)
            if why is None:
                apart = self._apart(ahead, pod, name)
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
        parts = self._alike.get(labels)
        if parts is None:
            parts = self._alike[labels] = nearest_nodes.alike(self._snapshot, labels)
        return parts[name]

    def _one_by_one(
        self,
        seats: Mapping[model.Uid, model.NodeName],
        domain: Path,
        required: Collection[model.Uid],
        refused: Collection[model.Uid],
    ) -> tuple[dict[model.Uid, model.NodeName], snapshots.Snapshot]:
        """The seats that are admitted one after the other, some on other nodes, and the state with them.

        Not continued once too few are left. ``refused``: those that are refused beside all others.
        """
        kept: dict[model.Uid, model.NodeName] = {}
        at = dict(seats)
        ahead, spare = self._snapshot, len(seats) - len(required)
        seated = (pod for pod in self._pods if pod.uid in seats)
        runs = collections.deque(self._runs(sorted(seated, key=lambda pod: pod.uid not in required), at))
        places = nearest_nodes.Places(self._pods, at)
        if domain not in self._nearest:
            self._nearest[domain] = nearest_nodes.NearestNodes(self._snapshot, self._demands, domain)
        near = self._nearest[domain]
        usual: dict[int | None, int] = {}
        """Kind -> how many of the latest run were admitted of which not all were."""
        nowhere: dict[Hashable, str] = {}
        """Run of which no member is admitted anywhere in the present state -> why."""
        unread: tuple[model.Pod, snapshots.Snapshot] | None = None
        """The latest member that was refused at its seat, and the state then: why is read when needed."""
        sure = ""
        """The member that is known to be admitted where it was moved."""
        latest: tuple[model.Pod, snapshots.Snapshot] | None = None
        """The latest member that was moved unasked, and the state with it."""
        while runs:
            key, run = runs.popleft()
            if key not in nowhere:
                kind = self._kinds.get(run[0].uid)
                expected = usual.get(kind, 0) if run[-1].uid in refused else len(run)
                count, ahead = self._first_admitted(run, at, ahead, expected, run[0].uid == sure)
                if count < len(run):
                    usual[kind] = count
                if count:
                    kept.update((pod.uid, at[pod.uid]) for pod in run[:count])
                    nowhere.clear()
                    last, run = run[count - 1], run[count:]
                    if at[last.uid] != seats[last.uid]:
                        latest = last, ahead
                if not run:
                    continue
                unread, latest = (run[0], ahead), None
                moved = self._instead(run, ahead, near, places)
                if moved:
                    # The first is admitted there. The others are as far as the sums admit them.
                    places.move(run, moved)
                    sure = run[0].uid
                    nowhere.clear()
                    if run[len(moved) :]:
                        runs.appendleft((key, run[len(moved) :]))
                    runs.extendleft(reversed(self._parted(run[: len(moved)], at)))
                    continue
                self._read_why(seats, *unread)
                nowhere[key] = self.why
            self.why, unread, latest = nowhere[key], None, None
            spare -= len(run)
            if spare < 0:
                break
        if unread is not None:
            self._read_why(seats, *unread)
        if latest is not None:
            pod, beside = latest
            self._read_why(seats, pod, self._apart(beside, pod, at[pod.uid]))
        return kept, ahead

    def _read_why(
        self, seats: Mapping[model.Uid, model.NodeName], pod: model.Pod, ahead: snapshots.Snapshot
    ) -> None:
        """Keep the reason why the member is refused at its seat in a state, if it is."""
        self.why = self._refused_nodes(pod, frozenset((seats[pod.uid],)), ahead)[1] or self.why

    def _runs(
        self, pods: Iterable[model.Pod], seats: Mapping[model.Uid, model.NodeName]
    ) -> list[tuple[Hashable, list[model.Pod]]]:
        """The members in order: those together that get the same answers and stay refused once one is.

        They have one size, and seats on nodes that are alike to the other plugins: each run with its key.
        """
        found: list[tuple[Hashable, list[model.Pod]]] = []
        lasting: dict[int | None, bool] = {}
        for pod in pods:
            kind = self._kinds.get(pod.uid)
            if kind not in lasting:
                summed = pod.uid in self._summed
                lasting[kind] = kind is None or (summed and self._peers.stays_refused(pod, self._snapshot))
            key = None if kind is None else (kind, self._part(pod, seats[pod.uid]), self._size(pod))
            if found and lasting[kind] and found[-1][0] == key:
                found[-1][1].append(pod)
            else:
                found.append((key, [pod]))
        return found

    def _parted(
        self, run: Sequence[model.Pod], seats: Mapping[model.Uid, model.NodeName]
    ) -> list[tuple[Hashable, list[model.Pod]]]:
        """The members of a run, in runs by the parts of their nodes."""
        kind, size = self._kinds[run[0].uid], self._size(run[0])
        parts = itertools.groupby(run, lambda pod: self._part(pod, seats[pod.uid]))
        return [((kind, part, size), list(pods)) for part, pods in parts]

    def _size(self, pod: model.Pod) -> Hashable:
        found = self._sizes.get(pod.uid)
        if found is None:
            found = self._sizes[pod.uid] = capacities.size(pod)
        return found

    def _first_admitted(
        self,
        run: Sequence[model.Pod],
        seats: Mapping[model.Uid, model.NodeName],
        ahead: snapshots.Snapshot,
        expected: int,
        sure: bool,
    ) -> tuple[int, snapshots.Snapshot]:
        """How many members of a run are admitted one after the other, and the state with them.

        None is admitted after one that is refused. ``expected``: as for ``next_tried``; ``sure``: the
        first is admitted.
        """
        if run[0].uid not in self._kinds:
            return len(run), self._placed(ahead, run, seats)
        low, high, held = int(sure), len(run), 0
        beyond = ahead
        while low < high:
            middle = next_tried(low, high, expected)
            before = self._placed(ahead, run[held : middle - 1], seats)
            last = run[middle - 1]
            if self._refused_nodes(last, frozenset((seats[last.uid],)), before)[0]:
                high, beyond = middle - 1, before
            else:
                low, held, ahead = middle, middle - 1, before
        return low, beyond if high < len(run) else self._placed(ahead, run[held:], seats)

    def _instead(
        self,
        run: Sequence[model.Pod],
        ahead: snapshots.Snapshot,
        near: nearest_nodes.NearestNodes,
        places: nearest_nodes.Places,
    ) -> dict[model.Uid, model.NodeName]:
        """Other nodes for members of a run, that all plugins admit now: the first ones get the nearest."""
        parts = near.parts(self._summed.get(run[0].uid))
        refusals = self._peers.refusals(run[0], frozenset(parts.samples.values()), ahead)
        refused = node_sets.union(*(one.nodes for one in refusals))
        left = {part for part, name in parts.samples.items() if name not in refused}
        self.elsewhere = self.elsewhere or not left.isdisjoint(parts.beyond)
        if self._demands.multiples:
            return {}
        nodes = itertools.chain.from_iterable(names for part, names in parts.near if part in left)
        return places.free(run, nodes, self._capacity())


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


def next_tried(low: int, high: int, expected: int) -> int:
    """Which number to try next, to find the one that is sought between these by few trials.

    Each trial shows whether that is at least the one that is tried. The search begins at the expected one and
    doubles its distance from there until it has passed the number, then it halves what is left. With 0,
    nothing is expected, and it halves from the start.
    """
    middle = (low + high + 1) // 2
    if not expected:
        return middle
    if low >= expected:
        return min(middle, low + max(1, low - expected))
    if high < expected:
        return max(middle, 2 * high + 1 - expected)
    return expected
