"""kube-scheduler's cycle of a group of its own whose members are nominated already, on small clusters.

An oracle that shares no code with the plugin. Every pod takes half of a node. kube-scheduler asks about the
nominated node of a member alone, and then about all nodes; it counts nominated members on their nodes
(RunFilterPluginsWithNominatedPods). If too few members have a node, it asks again as if less important pods
were gone, and puts back those that are not in the way (podgrouppreemption.go, Kubernetes 1.37).
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import model
from tests.support.decisions import small_gangs
from tests.support.decisions.group_evictions import GROUP

HALF = 4
"""Cores that a pod requests; a node has twice as many."""
KEPT, WHOLE = "kept", "whole"
"""A gang that is not to be broken up, and one that is disrupted as a whole."""
Seats = Mapping[model.Uid, model.NodeName]


@dataclass
class Cycle:
    """Nodes, the pods that run there, and the group that kube-scheduler tries."""

    nodes: list[str]
    running: list[model.Pod]
    members: list[model.Pod]
    """In the order in which they are tried."""
    minimum: int
    least: int
    """The minimum of the gang KEPT."""
    unfit: frozenset[tuple[model.Uid, model.NodeName]] = frozenset()
    """Member and node that a rule which Topolog does not model rejects."""
    cluster: small_gangs.Cluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = small_gangs.Cluster(
            *map(small_gangs.node, self.nodes),
            small_gangs.native("g", self.minimum),
            small_gangs.native(KEPT, self.least),
            small_gangs.native(WHOLE, 1, disrupted_whole=True),
            *self.running,
            *self.members,
        )

    def outcome(self) -> tuple[str, str]:
        """What becomes of the group: bound, preempts or none; and how the victims break the law, or empty."""
        if len(self.seats(supposed=False)) >= self.minimum:
            return "bound", ""
        seats = self.seats(supposed=True)
        return ("preempts", self._broken(seats)) if len(seats) >= self.minimum else ("none", "")

    def seats(self, *, supposed: bool) -> Seats:
        """The nodes that the members get; ``supposed``: as if less important pods were gone."""
        found: dict[model.Uid, model.NodeName] = {}
        for pod in self.members:
            for names in ([pod.nominated], self.nodes):
                offered = self._offered(pod, names, found, supposed=supposed)
                kept = self.cluster.filter(pod, offered, offered=True).kept if offered else frozenset()
                if kept:
                    found[pod.uid] = min(kept)
                    break
        return found

    def _offered(
        self, pod: model.Pod, names: Sequence[model.NodeName], seats: Seats, *, supposed: bool
    ) -> list[model.NodeName]:
        free = self._free(supposed=supposed)
        free.subtract(seats.values())
        waiting = (one for one in self.members if one.uid != pod.uid and one.uid not in seats)
        free.subtract(one.nominated for one in waiting)
        fitting = [name for name in names if name in self.nodes and free[name] > 0]
        return [name for name in fitting if (pod.uid, name) not in self.unfit]

    def _free(self, *, supposed: bool) -> Counter[model.NodeName]:
        """Node -> pods that it takes beside those that run there."""
        stay = (pod.node for pod in self.running if not supposed or pod.priority >= GROUP)
        free = Counter(dict.fromkeys(self.nodes, 2))
        free.subtract(stay)
        return free

    def _broken(self, seats: Seats) -> str:
        """How the victims leave less of KEPT than its minimum; empty if they do not."""
        gone = self._victims(seats)
        kept = [pod for pod in self.running if pod.group == KEPT]
        left = [pod for pod in kept if pod not in gone]
        if len(left) < len(kept) and len(left) < self.least <= len(kept):
            return f"{KEPT} keeps {len(left)} of {self.least} members"
        return ""

    def _victims(self, seats: Seats) -> list[model.Pod]:
        free = self._free(supposed=True)
        free.subtract(seats.values())
        low = [pod for pod in self.running if pod.priority < GROUP]
        together = [pod for pod in low if pod.group == WHOLE]
        units = [[pod] for pod in low if pod.group != WHOLE] + ([together] if together else [])
        units.sort(
            key=lambda pods: (-pods[0].priority, not pods[0].group, -len(pods), min(p.started for p in pods))
        )
        gone: list[model.Pod] = []
        for pods in units:
            back = Counter(pod.node for pod in pods)
            if any(node in seats.values() and free[node] < count for node, count in back.items()):
                gone += pods
            else:
                free.subtract(back)
        return gone


def generated(seed: int, *, modelled: bool = True) -> Cycle:
    """A cycle of two to four members on two to four nodes; not ``modelled``: some rules are not."""
    dice = random.Random(seed)
    nodes = [f"n{number}" for number in range(dice.randint(2, 4))]
    groups = (KEPT, "") if dice.random() < 0.6 else (KEPT, WHOLE, WHOLE, "")
    running: list[model.Pod] = []
    for name in nodes:
        for _ in range(dice.randint(0, 2)):
            priority, group = dice.choice((0, 1, 2, 3, 4, 20)), dice.choice(groups)
            if priority > GROUP:
                group = ""
            priority = {KEPT: 3, WHOLE: 1}.get(group, priority)
            number = len(running)
            started = f"2026-01-01T00:00:{number:02}Z"
            running.append(
                small_gangs.pod(
                    f"low{number}", HALF, node=name, priority=priority, group=group, started=started
                )
            )
    count = dice.randint(2, 4)
    members = [
        small_gangs.pod(
            f"m{number}", HALF, group="g", priority=GROUP, nominated=dice.choice(["", *nodes, *nodes])
        )
        for number in range(count)
    ]
    dice.shuffle(members)
    kept = sum(pod.group == KEPT for pod in running)
    unfit = {(pod.uid, name) for pod in members for name in nodes if not modelled and dice.random() < 0.2}
    return Cycle(
        nodes, running, members, dice.randint(1, count), dice.randint(1, max(1, kept)), frozenset(unfit)
    )
