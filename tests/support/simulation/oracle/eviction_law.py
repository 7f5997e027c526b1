"""The law of evictions, checked on the state of a log: who goes for a group or a pod, and who never does.

kube-scheduler's steps are repeated plainly, for nodes on which only the number of pods is limited. The law is
that no arrangement of a group's members does less harm, that pods go only if the members then fit, and that
no gang is left with fewer members than its minimum.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.domain import model
from tests.support.simulation.oracle import gang_law, plain_budgets, plain_fold

NATIVE = {"gold": 2, "bronze": 2, "silver": 2}
"""PodGroup of kube-scheduler's own -> its first minimum."""
PREEMPTING = "gold"
"""The group that preempts."""
WHOLE = "silver"
"""The group that is disrupted as a whole."""
TOP, HIGH, MIDDLE = 20, 10, 5
"""The priorities of single pods that preempt it, of its members, and of other gangs; other pods have less."""
Seats = Mapping[str, str]
"""uid of a member -> node."""
Unit = tuple[model.Pod, ...]
"""Pods that are evicted together: one, or those of a group that is disrupted as a whole."""


class Harm(NamedTuple):
    """What evictions cost: less is better, in this order."""

    violations: int
    highest: int
    total: int
    number: int


class Evictions(NamedTuple):
    """The pods that kube-scheduler evicts."""

    victims: tuple[model.Pod, ...]
    harm: Harm


def held(fold: plain_fold.Fold) -> dict[str, list[model.Pod]]:
    """Node -> the pods that occupy it."""
    found: dict[str, list[model.Pod]] = {name: [] for name in fold.nodes}
    for pod, name in fold.pods_and_nodes().values():
        if name in found and pod.phase not in ("Succeeded", "Failed"):
            found[name].append(pod)
    return found


def broken_gang(fold: plain_fold.Fold, victims: Iterable[model.Pod]) -> str:
    """A gang that runs whole and would keep too few members, as text; empty if there is none."""
    going = {pod.uid for pod in victims}
    bound: dict[str, list[str]] = {}
    for pod, name in fold.pods_and_nodes().values():
        if gang_law.gang(pod) and pod.node and name and _counted(pod):
            bound.setdefault(gang_law.gang(pod), []).append(pod.uid)
    for gang, members in sorted(bound.items()):
        left = [uid for uid in members if uid not in going]
        if len(left) < len(members) and left and len(left) < fold.groups.get(gang, 0) <= len(members):
            return f"gang {gang} keeps {len(left)} of {fold.groups[gang]} members"
    return ""


def units(fold: plain_fold.Fold, priority: int) -> list[Unit]:
    """The pods of less than the priority on nodes, the most important first (MoreImportantVictim)."""
    low = [pod for pods in held(fold).values() for pod in pods if pod.priority < priority]
    wholes: dict[str, list[model.Pod]] = {}
    found: list[Unit] = []
    for pod in low:
        if gang_law.gang(pod) in fold.wholes:
            wholes.setdefault(gang_law.gang(pod), []).append(pod)
        else:
            found.append((pod,))
    found += map(tuple, wholes.values())
    return sorted(
        found,
        key=lambda pods: (
            -pods[0].priority,
            not pods[0].group,
            -len(pods),
            min(pod.started or "~" for pod in pods),
            min(pod.uid for pod in pods),
        ),
    )


def nominated(fold: plain_fold.Fold, priority: int, but: Callable[[model.Pod], bool]) -> Counter[str]:
    """Node -> pods of at least the priority that wait for it, without those of ``but``."""
    return Counter(
        pod.nominated
        for pod, node in fold.pods_and_nodes().values()
        if pod.nominated and not node and _counted(pod) and pod.priority >= priority and not but(pod)
    )


class Group:
    """A group that waits, in the state of the log."""

    def __init__(self, fold: plain_fold.Fold, name: str, priority: int) -> None:
        self._fold = fold
        self._name = name
        self._priority = priority
        members = [(pod, node) for pod, node in fold.pods_and_nodes().values() if gang_law.gang(pod) == name]
        self.waiting = sorted(pod.uid for pod, node in members if not node and _counted(pod))
        self.placed = {pod.uid: node for pod, node in members if node and not pod.node}
        """Those that are placed and not bound yet."""
        started = gang_law.started(name, fold)
        least = fold.groups.get(name, 0)
        self.needed = 0 if started else least
        self.complete = least > 0 and (started or len(self.waiting) >= least)
        """Whether the group may be placed. kube-scheduler itself tries it as long as a member terminates."""
        self.torn = any(
            node not in fold.nodes and gang_law.gang(pod) in fold.wholes
            for pod, node in fold.pods_and_nodes().values()
            if node and pod.phase not in ("Succeeded", "Failed")
        )
        """Whether a group that is disrupted as a whole has a pod on a node that is gone."""
        self._held = held(fold)
        holding = nominated(fold, priority, lambda pod: gang_law.gang(pod) == name)
        self._capacity = {
            node: fold.nodes[node].allocatable.get("pods", 0) - holding[node] for node in fold.nodes
        }
        """Node -> pods that it takes beside those that are nominated for it and hold their place."""

    def as_it_is(self, seats: Seats) -> str:
        """How nodes that were answered without any supposition break the law; empty if they do not."""
        free = sum(max(0, self._capacity[node] - len(self._held[node])) for node in self._capacity)
        wanted = max(1, self.needed)
        if self.complete and min(len(self.waiting), free) >= wanted > len(seats):
            return f"{len(seats)} of {wanted} members have a node, and there is capacity for all"
        return ""

    def problem(self, seats: Seats) -> str:
        """How the nodes that were answered while less important pods count as gone break the law."""
        for count in dict.fromkeys((len(self.waiting), self.needed)) if self.complete else ():
            least = min((self._evicted(one).harm for one in self._arrangements(count)), default=None)
            if count and least is not None:
                return self._against(seats, count, least)
        return f"members have nodes without capacity: {dict(seats)}" if seats and self.needed else ""

    def unfit(self, seats: Seats) -> str:
        """The part of the law that holds whatever else limits the members."""
        if seats and not self.complete:
            return f"members of a group that is not complete have nodes: {dict(seats)}"
        for node, count in sorted(Counter(seats.values()).items()):
            if node not in self._capacity or count > max(0, self._capacity[node] - self._remaining(node)):
                return f"{node} has no capacity for {count} members, whatever is evicted"
        return ""

    def _against(self, seats: Seats, count: int, least: Harm) -> str:
        if len(seats) < count:
            return f"{len(seats)} of {count} members have a node, and all fit once others go"
        harm = self.evictions(seats).harm
        return f"the plan costs {harm}, another one {least}" if harm > least else ""

    def evictions(self, seats: Seats) -> Evictions:
        """Whom kube-scheduler evicts for members on these nodes."""
        return self._evicted(Counter(seats.values()))

    def overfull(self, seats: Seats) -> str:
        """A node of these, where members are placed, with more pods than it has capacity for, as text."""
        for name in sorted({*seats.values()} & self._held.keys()):
            if len(self._held[name]) > self._capacity[name]:
                return (
                    f"{name} has capacity for {self._capacity[name]} pods, and holds {len(self._held[name])}"
                )
        return ""

    def _evicted(self, members: Mapping[str, int]) -> Evictions:
        """As selectVictimsOnDomain: all less important pods go, and return one by one if the members fit."""
        low = units(self._fold, self._priority)
        violating = plain_budgets.violating((pod for unit in low for pod in unit), self._fold.budgets)
        on = {pod.uid: node for node, pods in self._held.items() for pod in pods}
        taken = Counter(
            {
                node: members.get(node, 0) + sum(pod.priority >= self._priority for pod in pods)
                for node, pods in self._held.items()
            }
        )
        victims = list[model.Pod]()
        for unit in sorted(low, key=lambda unit: all(pod.uid not in violating for pod in unit)):
            more = Counter(on[pod.uid] for pod in unit)
            if any(members.get(node) and taken[node] + more[node] > self._capacity[node] for node in more):
                victims += unit
            else:
                taken += more
        return Evictions(
            tuple(victims),
            Harm(
                sum(pod.uid in violating for pod in victims),
                max((pod.priority for pod in victims), default=-(2**32)),
                sum(pod.priority + 2**31 for pod in victims),
                len(victims),
            ),
        )

    def _arrangements(self, count: int) -> Iterator[Counter[str]]:
        """Node -> members, in every way that fits without the pods that may go."""
        capacity = {node: max(0, self._capacity[node] - self._staying(node)) for node in self._capacity}
        for chosen in itertools.combinations_with_replacement(sorted(capacity), count):
            members = Counter(chosen)
            if all(number <= capacity[node] for node, number in members.items()):
                yield members

    def _staying(self, node: str) -> int:
        """Pods that stay on the node: all, if one of a gang that is whole would have to go."""
        there = self._held[node]
        return len(there) if any(map(self._keeps, there)) else self._remaining(node)

    def _remaining(self, node: str) -> int:
        """Pods that stay on the node in any case.

        Beside a member of a gang that is whole, a pod may go with its group, for members on other nodes.
        """
        return sum(pod.priority >= self._priority or self._keeps(pod) for pod in self._held[node])

    def _keeps(self, pod: model.Pod) -> bool:
        """Whether the pod is less important, and a member of a gang that is whole and loses none."""
        name = gang_law.gang(pod)
        if pod.priority >= self._priority or not name or name in self._fold.wholes:
            return False
        located = self._fold.pods_and_nodes().values()
        seats = [one for one, node in located if node and gang_law.gang(one) == name and _counted(one)]
        return len(seats) >= self._fold.groups.get(name, 0)


def dry_run(fold: plain_fold.Fold, pod: model.Pod, node: str) -> list[model.Pod]:
    """The pods that kube-scheduler evicts for one pod on a node, the most important first.

    As SelectVictimsOnNode; empty if the pod fits beside all, or does not fit without those of less priority.
    Of a group that is disrupted as a whole all pods are listed, also those of other nodes.
    """
    there = held(fold)[node]
    capacity = fold.nodes[node].allocatable.get("pods", 0)
    waiting = nominated(fold, pod.priority, lambda one: one.uid == pod.uid)[node]
    here = {one.uid for one in there}
    low = [unit for unit in units(fold, pod.priority) if any(one.uid in here for one in unit)]
    taken = sum(one.priority >= pod.priority for one in there) + waiting + 1
    if taken > capacity:
        return []
    violating = plain_budgets.violating((one for unit in low for one in unit), fold.budgets)
    victims = list[Unit]()
    for unit in sorted(low, key=lambda unit: all(one.uid not in violating for one in unit)):
        more = sum(one.uid in here for one in unit)
        if taken + more > capacity:
            victims.append(unit)
        else:
            taken += more
    return [one for unit in low if unit in victims for one in unit]


def elsewhere(fold: plain_fold.Fold, node: str, victims: Iterable[model.Pod]) -> str:
    """Victims of other nodes, as text: kube-scheduler refuses an answer with them, whatever else it has."""
    there = {pod.uid for pod in held(fold)[node]}
    far = [pod for pod in victims if pod.uid not in there]
    return f"{_names(far)} run on other nodes" if far else ""


def problem(
    fold: plain_fold.Fold, pod: model.Pod, node: str, offered: Mapping[str, Sequence[model.Pod]]
) -> str:
    """Why the node must not be kept for the pod; empty if it may."""
    found = elsewhere(fold, node, offered[node]) or broken_gang(fold, offered[node])
    return found or (needless(fold, pod, node, offered) if gang_law.gang(pod) else "")


def needless(
    fold: plain_fold.Fold, pod: model.Pod, node: str, offered: Mapping[str, Sequence[model.Pod]]
) -> str:
    """Why evictions on the node do not help the gang of the pod, as text; empty if they may.

    ``offered``: node -> the victims that kube-scheduler proposes there.
    """
    name = gang_law.gang(pod)
    group = Group(fold, name, pod.priority)
    going = {victim.uid for victims in offered.values() for victim in victims}
    holding = nominated(fold, pod.priority, lambda one: gang_law.gang(one) == name)
    capacity = {
        at: fold.nodes[at].allocatable.get("pods", 0)
        - holding[at]
        - sum(one.uid not in going for one in pods)
        for at, pods in held(fold).items()
    }
    if not group.complete:
        return f"gang {name} is not complete"
    if capacity[node] < 1 or sum(max(0, free) for free in capacity.values()) < group.needed:
        return f"gang {name} has no capacity without {_names(offered[node])}"
    return ""


def _counted(pod: model.Pod) -> bool:
    return not pod.terminating and pod.phase not in ("Succeeded", "Failed")


def _names(pods: Iterable[model.Pod]) -> list[str]:
    return sorted(pod.name for pod in pods)
