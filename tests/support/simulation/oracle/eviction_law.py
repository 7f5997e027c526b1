"""The law of evictions, checked on the state of a log: who goes for a group or a pod, and who never does.

kube-scheduler's steps are repeated plainly, for nodes on which only the number of pods is limited. The law is
that no arrangement of a group's members does less harm, that pods go only if the members then fit, and that
no gang is left with fewer members than its minimum.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.domain import model
from tests.support.simulation.oracle import gang_law, plain_budgets, plain_fold

NATIVE = {"gold": 2, "bronze": 2}
"""PodGroup of kube-scheduler's own -> its first minimum."""
PREEMPTING = "gold"
"""The group that preempts."""
HIGH, MIDDLE = 10, 5
"""The priorities of its members, and of other gangs; the other pods have less."""
Seats = Mapping[str, str]
"""uid of a member -> node."""


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
    for pod, name in fold.standings().values():
        if name in found and pod.phase not in ("Succeeded", "Failed"):
            found[name].append(pod)
    return found


def overfull(fold: plain_fold.Fold, nodes: Iterable[str]) -> str:
    """A node of these with more pods than it has room for, as text; empty if there is none."""
    there = held(fold)
    for name in sorted({*nodes} & there.keys()):
        most = fold.nodes[name].allocatable.get("pods", 0)
        if len(there[name]) > most:
            return f"{name} has room for {most} pods, and holds {len(there[name])}"
    return ""


def broken_gang(fold: plain_fold.Fold, victims: Iterable[model.Pod]) -> str:
    """A gang that runs whole and would keep too few members, as text; empty if there is none."""
    going = {pod.uid for pod in victims}
    bound: dict[str, list[str]] = {}
    for pod, name in fold.standings().values():
        if gang_law.gang(pod) and pod.node and name and _counted(pod):
            bound.setdefault(gang_law.gang(pod), []).append(pod.uid)
    for gang, members in sorted(bound.items()):
        left = [uid for uid in members if uid not in going]
        if len(left) < len(members) and left and len(left) < fold.groups.get(gang, 0) <= len(members):
            return f"gang {gang} keeps {len(left)} of {fold.groups[gang]} members"
    return ""


class Group:
    """A group that waits, in the state of the log."""

    def __init__(self, fold: plain_fold.Fold, name: str, priority: int) -> None:
        self._fold = fold
        self._priority = priority
        members = [(pod, node) for pod, node in fold.standings().values() if gang_law.gang(pod) == name]
        self.waiting = sorted(pod.uid for pod, node in members if not node and _counted(pod))
        self.placed = [pod.uid for pod, node in members if node and not pod.node]
        """Those that are placed and not bound yet."""
        started = any(node or pod.phase in ("Succeeded", "Failed") for pod, node in members)
        least = fold.groups.get(name, 0)
        self.needed = 0 if started else least
        self.complete = least > 0 and (started or len(self.waiting) >= least)
        """Whether kube-scheduler would try to place it."""
        self._held = held(fold)
        self._room = {node: fold.nodes[node].allocatable.get("pods", 0) for node in fold.nodes}

    def problem(self, seats: Seats) -> str:
        """How the nodes that were answered break the law; empty if they do not."""
        wanted = max(1, self.needed)
        free = {node: max(0, self._room[node] - len(self._held[node])) for node in self._room}
        if min(len(self.waiting), sum(free.values())) >= wanted:
            gone = self.evictions(seats).victims
            if len(seats) < wanted:
                return f"{len(seats)} of {wanted} members have a node, and there is room for all"
            return f"pods are evicted although there is room: {_names(gone)}" if gone else ""
        for count in dict.fromkeys((len(self.waiting), self.needed)):
            least = min((self._evicted(one).harm for one in self._arrangements(count)), default=None)
            if count and least is not None:
                return self._compared(seats, count, least)
        return f"members have nodes without room: {dict(seats)}" if seats and self.needed else ""

    def _compared(self, seats: Seats, count: int, least: Harm) -> str:
        if len(seats) < count:
            return f"{len(seats)} of {count} members have a node; they fit with {least}"
        harm = self.evictions(seats).harm
        return f"the plan costs {harm}, another one {least}" if harm != least else ""

    def evictions(self, seats: Seats) -> Evictions:
        """Whom kube-scheduler evicts for members on these nodes."""
        return self._evicted(Counter(seats.values()))

    def _evicted(self, members: Mapping[str, int]) -> Evictions:
        """As selectVictimsOnDomain: all less important pods go, and return one by one if the members fit."""
        low = sorted(
            (pod for pods in self._held.values() for pod in pods if pod.priority < self._priority),
            key=lambda pod: (-pod.priority, not pod.group, pod.started or "~", pod.uid),
        )
        violating = plain_budgets.violating(low, self._fold.budgets)
        on = {pod.uid: node for node, pods in self._held.items() for pod in pods}
        taken = Counter(
            {
                node: members.get(node, 0) + sum(pod.priority >= self._priority for pod in pods)
                for node, pods in self._held.items()
            }
        )
        victims = []
        for pod in sorted(low, key=lambda pod: pod.uid not in violating):
            node = on[pod.uid]
            if members.get(node) and taken[node] + 1 > self._room[node]:
                victims.append(pod)
            else:
                taken[node] += 1
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
        room = {node: max(0, self._room[node] - self._staying(node)) for node in self._room}
        for chosen in itertools.combinations_with_replacement(sorted(room), count):
            members = Counter(chosen)
            if all(number <= room[node] for node, number in members.items()):
                yield members

    def _staying(self, node: str) -> int:
        """Pods that stay on the node: all, if one of a gang that is whole would have to go."""
        there = self._held[node]
        low = [pod for pod in there if pod.priority < self._priority]
        return len(there) if any(map(self._whole, low)) else len(there) - len(low)

    def _whole(self, pod: model.Pod) -> bool:
        """Whether the pod is a member of a gang that has as many members as it needs."""
        name = gang_law.gang(pod)
        if not name:
            return False
        standings = self._fold.standings().values()
        seats = [one for one, node in standings if node and gang_law.gang(one) == name and _counted(one)]
        return len(seats) >= self._fold.groups.get(name, 0)


def dry_run(
    pods: Sequence[model.Pod], room: int, priority: int, budgets: Mapping[str, plain_budgets.Budget]
) -> list[model.Pod]:
    """The pods of a node that kube-scheduler evicts there for one pod, the most important first.

    As SelectVictimsOnNode; empty if the pod fits beside all, or does not fit without those of less priority.
    """
    low = sorted(
        (pod for pod in pods if pod.priority < priority),
        key=lambda pod: (-pod.priority, pod.started or "~", pod.uid),
    )
    taken = len(pods) - len(low) + 1
    if taken > room:
        return []
    violating = plain_budgets.violating(low, budgets)
    victims = []
    for pod in sorted(low, key=lambda pod: pod.uid not in violating):
        if taken + 1 > room:
            victims.append(pod)
        else:
            taken += 1
    return [pod for pod in low if pod in victims]


def needless(
    fold: plain_fold.Fold, pod: model.Pod, node: str, offered: Mapping[str, Sequence[model.Pod]]
) -> str:
    """Why evictions on the node do not help the gang of the pod, as text; empty if they may.

    ``offered``: node -> the victims that kube-scheduler proposes there.
    """
    name = gang_law.gang(pod)
    group = Group(fold, name, pod.priority)
    going = {victim.uid for victims in offered.values() for victim in victims}
    room = {
        at: fold.nodes[at].allocatable.get("pods", 0) - sum(one.uid not in going for one in pods)
        for at, pods in held(fold).items()
    }
    if not group.complete:
        return f"gang {name} is not complete"
    if room[node] < 1 or sum(max(0, free) for free in room.values()) < group.needed:
        return f"gang {name} has no room without {_names(offered[node])}"
    return ""


def _counted(pod: model.Pod) -> bool:
    return not pod.terminating and pod.phase not in ("Succeeded", "Failed")


def _names(pods: Iterable[model.Pod]) -> list[str]:
    return sorted(pod.name for pod in pods)
