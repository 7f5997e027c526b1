"""The evictions for a group of kube-scheduler's own, on clusters of a few nodes.

An oracle that shares no code with the plugin: it tries every node for every member, and puts pods back one by
one as selectVictimsOnDomain does (preemption/podgrouppreemption.go, Kubernetes 1.37). Amounts are cores.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from app.domain import model
from app.domain.fit import budgets
from tests.support.decisions import small_gangs
from tests.support.decisions.small_gangs import CORE, ZONE

GROUP = 10
"""The priority of the group that preempts."""
Harm = tuple[int, int, int, int]
"""Violations, the highest priority, the sum of the raised priorities, the number of victims."""


@dataclass
class Case:
    """Nodes, the pods that run there, and a group that waits."""

    nodes: dict[str, int]
    running: list[model.Pod]
    members: list[model.Pod]
    limits: list[budgets.DisruptionBudget] = field(default_factory=list)
    wholes: frozenset[str] = frozenset()
    """Groups that are disrupted as a whole."""
    zones: Mapping[str, str] = field(default_factory=dict)
    """Node -> zone, which the group may not leave; empty: it may."""

    def cluster(self) -> small_gangs.Cluster:
        """The case as the plugin gets it."""
        key = ZONE if self.zones else ""
        return small_gangs.Cluster(
            *(small_gangs.node(name, cpu, self._labels(name)) for name, cpu in self.nodes.items()),
            small_gangs.native("g", len(self.members), topology_key=key),
            *(small_gangs.native(name, 1, disrupted_whole=True) for name in self.wholes),
            *self.running,
            *self.members,
            *self.limits,
        )

    def _labels(self, name: str) -> dict[str, str]:
        return {ZONE: self.zones[name]} if self.zones else {}

    def units(self) -> list[tuple[tuple[model.Pod, ...], int]]:
        """The pods that may go, with the violations that this costs, in the order in which they return."""
        low = [pod for pod in self.running if pod.priority < GROUP]
        groups = [tuple(pod for pod in low if pod.group == name) for name in sorted(self.wholes)]
        units = [(pod,) for pod in low if pod.group not in self.wholes] + [group for group in groups if group]
        units.sort(
            key=lambda pods: (-pods[0].priority, not pods[0].group, -len(pods), min(p.started for p in pods))
        )
        left = {limit.name: limit.allowed for limit in self.limits}
        counted = []
        for pods in units:
            violations = 0
            for pod in pods:
                for limit in self.limits:
                    assert limit.selector is not None
                    if pod.labels and limit.selector.labels.items() <= pod.labels.items():
                        left[limit.name] -= 1
                        if left[limit.name] < 0:
                            violations += 1
                            break
            counted.append((pods, violations))
        return sorted(counted, key=lambda unit: not unit[1])

    def arrangements(self) -> Iterator[tuple[str, ...]]:
        """A node for each member, in every way that fits without the pods that may go."""
        names = sorted(self.nodes)
        for chosen in itertools.product(names, repeat=len(self.members)):
            if self.zones and len({self.zones[name] for name in chosen}) > 1:
                continue
            free = self.free(chosen)
            if all(capacity >= 0 for capacity in free.values()):
                yield chosen

    def free(self, chosen: Sequence[str]) -> dict[str, int]:
        """The capacity of each node beside the first members, and the pods that stay."""
        free = {name: cpu * CORE for name, cpu in self.nodes.items()}
        for pod in self.running:
            if pod.priority >= GROUP:
                free[pod.node] -= pod.requests["cpu"]
        for pod, name in zip(self.members, chosen, strict=False):
            free[name] -= pod.requests["cpu"]
        return free

    def harm(self, chosen: Sequence[str]) -> Harm:
        """What kube-scheduler evicts for members on these nodes."""
        free, gone = self.free(chosen), list[tuple[tuple[model.Pod, ...], int]]()
        for pods, violations in self.units():
            after = dict(free)
            for pod in pods:
                after[pod.node] -= pod.requests["cpu"]
            if all(after[name] >= 0 for name in chosen):
                free = after
            else:
                gone.append((pods, violations))
        victims = [pod for pods, _ in gone for pod in pods]
        return (
            sum(violations for _, violations in gone),
            max((pod.priority for pod in victims), default=-(2**31) - 1),
            sum(pod.priority + 2**31 for pod in victims),
            len(victims),
        )

    def least(self) -> Harm | None:
        """The least harm of all arrangements; None if the group does not fit."""
        return min(map(self.harm, self.arrangements()), default=None)


def generated(seed: int) -> Case:
    """A random case of two to four nodes."""
    dice = random.Random(seed)
    nodes = {f"n{number}": dice.choice((4, 6, 8)) for number in range(dice.randint(2, 4))}
    zones = {name: dice.choice("ab") for name in nodes} if dice.random() < 0.3 else {}
    free = dict(nodes)
    running: list[model.Pod] = []
    for number in range(dice.randint(2, 10)):
        name, cpu = dice.choice(sorted(nodes)), dice.randint(1, 4)
        if free[name] < cpu:
            continue
        free[name] -= cpu
        made = small_gangs.pod(f"low{number}", cpu, node=name, priority=dice.choice((-5, 0, 0, 1, 5, 20)))
        labels = {"app": dice.choice("vw"), "tier": "x"} if dice.random() < 0.6 else {}
        # No two start at the same time: kube-scheduler takes equally important ones in any order.
        started = f"2026-01-01T00:00:{dice.randrange(6)}{number}Z"
        running.append(msgspec.structs.replace(made, labels=labels, started=started))
    wholes = frozenset(("w",)) if dice.random() < 0.3 else frozenset[str]()
    if wholes:
        running = [
            msgspec.structs.replace(pod, group="w", priority=0) if dice.random() < 0.4 else pod
            for pod in running
        ]
    limits = [
        budgets.DisruptionBudget(
            uid=f"uid-{at}",
            namespace="x",
            name=f"limit{at}",
            selector=model.Selector(labels),
            allowed=dice.randint(0, 2),
        )
        for at, labels in enumerate(
            dice.sample([{"app": "v"}, {"app": "w"}, {"tier": "x"}], dice.randint(0, 2))
        )
    ]
    sizes = [dice.choice((2, 3, 4)) for _ in range(dice.randint(1, 3))]
    if dice.random() < 0.5:
        sizes = [sizes[0]] * len(sizes)
    members = [
        small_gangs.pod(f"m{number}", cpu, group="g", priority=GROUP) for number, cpu in enumerate(sizes)
    ]
    return Case(nodes, running, members, limits, wholes, zones)
