"""Capacity that kube-scheduler may free for a group of its own by evicting less important pods.

It preempts for a group by running the whole cycle as if every pod of a lower priority were gone (Kubernetes
1.36 and later), and then puts back those that are not in the way of the nodes that were found. Its calls of
filter in that cycle look like any other. It does not call preempt for a group, so what must not be evicted
has to be left out of the supposition here.
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from app.domain import model, node_sets, snapshots
from app.domain.fit import node_fit, victims
from app.domain.fold import node_sums
from app.plugins.coscheduling import gangs, kinds, membership
from app.plugins.coscheduling.membership import GangKey


class Unit(NamedTuple):
    """Pods that are evicted together: one, or all of a group that is disrupted as a whole."""

    pods: tuple[model.Pod, ...]
    priority: int
    stays: bool = False
    """It is less important than the group, and has to stay with its gang, or beside a pod that has to."""

    def by_node(self, snapshot: snapshots.Snapshot) -> dict[model.NodeName, list[model.Pod]]:
        """Node -> the pods that run there."""
        if len(self.pods) == 1:
            return {snapshot.node_of(self.pods[0].uid): [*self.pods]}
        found: dict[model.NodeName, list[model.Pod]] = {}
        for pod in self.pods:
            found.setdefault(snapshot.node_of(pod.uid), []).append(pod)
        return found


class Compared(NamedTuple):
    """What was read of pods beside the sums of their nodes."""

    pods: tuple[model.Pod, ...]
    """All less important ones that are on nodes."""
    expendable: Mapping[GangKey, bool]
    """Gang of such a pod -> whether the eviction of a member breaks up nothing that is whole."""

    def same_in(self, snapshot: snapshots.Snapshot) -> bool:
        """Whether a later state has the same, if objects and sums are the same."""
        return all(snapshot.pod(pod.uid) is pod for pod in self.pods) and all(
            _expendable(snapshot, key) == known for key, known in self.expendable.items()
        )


class Evictions:
    """The pods that may go for a group of a priority."""

    def __init__(self, snapshot: snapshots.Snapshot, priority: int) -> None:
        self._snapshot = snapshot
        self._priority = priority
        self._expendable: dict[GangKey, bool] = {}
        self._found: dict[model.NodeName, node_fit.Occupancy | None] = {}
        self._going: dict[model.NodeName, list[model.Pod]] = {}
        """Node -> the pods that may go from there."""
        self._staying: list[model.Pod] = []
        """Less important pods of the other nodes."""
        self._units: list[Unit] = []

    def possible(self) -> bool:
        """Whether kube-scheduler may suppose that pods are gone: from some node a pod may go.

        The nodes that it offers to one member do not show more: the members before it may fill all others.
        """
        return any(self.occupancy(name) is not None for name in self._low())

    def shown(self, pod: model.Pod, candidates: Collection[model.NodeName]) -> bool:
        """Whether the candidates show that it supposes so: the pod has no capacity on one as it is."""
        low = (name for name in candidates if self._has_less_important(name))
        return any(node_fit.fits(self._snapshot, pod, self._snapshot.nodes[name]) for name in low)

    def guarded(self, candidates: Collection[model.NodeName]) -> node_sets.Names:
        """The candidates where a less important pod has to stay.

        kube-scheduler may suppose that it is gone, and put more members there than fit beside it.
        """
        low = (name for name in candidates if self._has_less_important(name))
        return frozenset(name for name in low if self.occupancy(name) is None)

    def occupancies(self) -> dict[model.NodeName, node_fit.Occupancy]:
        """What the nodes would hold, of those on which that differs."""
        found = ((name, self.occupancy(name)) for name in self._low())
        return {name: held for name, held in found if held is not None}

    def occupancy(self, name: model.NodeName) -> node_fit.Occupancy | None:
        """What the node would hold; None if no pod may go from there.

        A node on which a less important pod has to stay with its gang is left as it is: kube-scheduler might
        put a more important pod back in its place.
        """
        found = self._found
        if name not in found:
            found[name] = self._occupancy(name) if self._has_less_important(name) else None
        return found[name]

    def _occupancy(self, name: model.NodeName) -> node_fit.Occupancy | None:
        snapshot, priority = self._snapshot, self._priority
        amounts = dict(snapshot.used(name))
        lower, stay = list[model.Pod](), False
        residents = snapshot.residents[name]
        for rank, uid in residents.ranked(snapshot.pod):
            if rank >= priority:
                break
            pod = snapshot.pod(uid)
            if pod is not None:
                stay = stay or not self._may_go(pod)
                node_sums.add_up(amounts, pod, -1)
                lower.append(pod)
        if stay:
            self._staying += lower
            return None
        self._going[name] = lower
        exposed = (snapshot.pod(uid) for uid in residents.on_ports(snapshot.pod))
        staying = (pod for pod in exposed if pod is not None and pod.priority >= priority)
        return node_fit.Occupancy(amounts, tuple(map(node_fit.ports_of, staying)))

    def units(self) -> list[Unit]:
        """All less important pods, the most important first; equal ones by uid."""
        self._units = self._units or self._all_units()
        return self._units

    def compared(self) -> Compared:
        """What all of this depends on."""
        pods = tuple(pod for unit in self.units() for pod in unit.pods)
        return Compared(pods, self._expendable)

    def _all_units(self) -> list[Unit]:
        snapshot = self._snapshot
        found: list[Unit] = []
        groups: dict[str, tuple[model.Pod, bool]] = {}
        going = [name for name in self._low() if self.occupancy(name) is not None]
        leaving = (pod for name in going for pod in self._going[name])
        for stays, pods in ((False, leaving), (True, self._staying)):
            for pod in pods:
                group = self._whole_group(pod)
                if group:
                    groups.setdefault(group, (pod, stays))
                else:
                    found.append(Unit((pod,), pod.priority, stays))
        for one, stays in groups.values():
            together = snapshot.siblings(one.namespace, model.GROUP, one.group)
            whole = [pod for pod in together if snapshot.node_of(pod.uid) and node_sums.holding(pod)]
            # They use up budgets in order, which must be the same in every process.
            whole.sort(key=lambda pod: pod.uid)
            found.append(Unit(tuple(whole), one.priority, stays))
        found.sort(key=_importance)
        return found

    def without(self, gone: Iterable[model.Pod]) -> dict[model.NodeName, node_fit.Occupancy]:
        """What the nodes of these pods hold once they are gone.

        A pod that goes with its group from a node where another one has to stay leaves no capacity there:
        kube-scheduler might put the group back, and evict what has to stay.
        """
        each: dict[model.NodeName, list[model.Pod]] = {}
        for pod in gone:
            each.setdefault(self._snapshot.node_of(pod.uid), []).append(pod)
        found: dict[model.NodeName, node_fit.Occupancy] = {}
        for name, pods in each.items():
            emptied = self.occupancy(name)
            if emptied is None:
                continue
            if len(pods) == len(self._going[name]):
                found[name] = emptied
            else:
                found[name] = functools.reduce(
                    node_fit.Occupancy.without, pods, node_fit.occupancy(self._snapshot, name)
                )
        return found

    def _whole_group(self, pod: model.Pod) -> str:
        """The group of kube-scheduler's own that the pod is evicted with; empty if it is evicted alone."""
        group = self._snapshot.get(kinds.NATIVE, f"{pod.namespace}/{pod.group}") if pod.group else None
        return group.key if group is not None and group.disrupted_whole else ""

    def _low(self) -> Iterator[model.NodeName]:
        """The nodes with a less important pod, of which some may be gone: no other is examined further."""
        for name, there in self._snapshot.residents.items():
            lowest = there.lowest_priority(self._snapshot.pod)
            if lowest is not None and lowest < self._priority:
                yield name

    def _has_less_important(self, name: model.NodeName) -> bool:
        """On a node that is gone, kube-scheduler sees no pods: they go for no one, and use up no budget."""
        snapshot = self._snapshot
        if name not in snapshot.nodes:
            return False
        lowest = snapshot.residents.get(name, node_sums.EMPTY).lowest_priority(snapshot.pod)
        return lowest is not None and lowest < self._priority

    def _may_go(self, pod: model.Pod) -> bool:
        """Whether the eviction of the pod breaks up no gang that is whole."""
        key = membership.of(pod)
        if key is None:
            return True
        found = self._expendable.get(key)
        if found is None:
            found = self._expendable[key] = _expendable(self._snapshot, key)
        return found


def _expendable(snapshot: snapshots.Snapshot, key: GangKey) -> bool:
    """Whether the eviction of a member breaks up no gang that is whole."""
    gang = gangs.find(snapshot, key)
    if gang is None or gang.given.victims or gang.disrupted_whole:
        return True
    return len(gang.seats) + len(gang.ran) < gang.minimum


def _importance(unit: Unit) -> tuple[int, bool, int, str, model.Uid]:
    """kube-scheduler's order (MoreImportantVictim, pkg/scheduler/framework/preemption/util.go)."""
    pods = unit.pods
    if len(pods) == 1:
        (only,) = pods
        return -unit.priority, not only.group, -1, victims.started(only), only.uid
    return (
        -unit.priority,
        not pods[0].group,
        -len(pods),
        min(map(victims.started, pods)),
        min(pod.uid for pod in pods),
    )
