"""A group that preempts under a policy that limits it per area, on clusters of a few nodes.

The oracle tries every node for every member, and shares no code with the plugins. Amounts are cores.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from app.domain import model
from app.plugins.workload_policy import policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.decisions import group_evictions, small_gangs
from tests.support.decisions.group_evictions import GROUP, Case
from tests.support.decisions.small_gangs import CORE, ZONE

AREA = "area"
"""The topology key of the policy."""
LIMITED = {"workload-policy/kosmos.io": "limit", "kind": "job"}
"""Labels of the pods that the policy limits."""


@dataclass
class LimitedCase(Case):
    """Nodes, the pods that run there, and a group that waits."""

    areas: Mapping[str, str] = field(default_factory=dict)
    """Node -> area."""
    quotas: Mapping[str, int] = field(default_factory=dict)
    """Area -> pods that the policy admits there; none to other nodes."""
    minimum: int = 1
    """Members that have to go together: the first ones, if not all can."""

    def cluster(self) -> small_gangs.Cluster:
        policy = policy_model.WorkloadPolicy(
            uid="uid-policy",
            namespace="x",
            name="limit",
            topology_key=AREA,
            selector=model.Selector({"kind": "job"}),
            allocations=tuple(policy_model.Allocation(name, count) for name, count in self.quotas.items()),
            type="Required",
        )
        return small_gangs.Cluster(
            *(small_gangs.node(name, cpu, self._labels(name)) for name, cpu in self.nodes.items()),
            policy,
            small_gangs.native("g", self.minimum, topology_key=ZONE if self.zones else ""),
            *(small_gangs.native(name, 1, disrupted_whole=True) for name in self.wholes),
            *self.running,
            *self.members,
            *self.limits,
            beside=(WorkloadPolicy(),),
        )

    def _labels(self, name: str) -> dict[str, str]:
        return {**super()._labels(name), **({AREA: self.areas[name]} if name in self.areas else {})}

    # -- the oracle ------------------------------------------------------------------------------

    def needed(self) -> "LimitedCase":
        """The case in which the others do not exist."""
        return replace(self, members=self.members[: self.minimum])

    def admitted(self, chosen: Sequence[str]) -> bool:
        """Whether the policy admits the members to these nodes, beside all pods that run."""
        asked = [
            self.areas.get(name, "")
            for pod, name in zip(self.members, chosen, strict=True)
            if "kind" in pod.labels
        ]
        held = Counter(self.areas.get(pod.node, "") for pod in self.running if "kind" in pod.labels)
        held.update(asked)
        return all(held[area] <= self.quotas.get(area, 0) for area in asked)

    def arrangements(self) -> Iterator[tuple[str, ...]]:
        return (chosen for chosen in super().arrangements() if self.admitted(chosen))

    def fits_as_it_is(self) -> bool:
        """Whether all members fit beside all pods that run."""
        return any(not self.harm(chosen)[3] for chosen in self.arrangements())

    def placed(self, found: Sequence[str]) -> tuple["LimitedCase", list[str]]:
        """The case of the members that have a node alone, and these nodes."""
        pairs = [(pod, name) for pod, name in zip(self.members, found, strict=True) if name]
        return replace(self, members=[pod for pod, _ in pairs]), [name for _, name in pairs]

    def problem(self, found: Sequence[str], *, preempting: bool) -> str:
        """What is wrong with the nodes that the members are answered; empty if nothing is.

        ``preempting``: in the cycle in which pods count as gone that may go.
        """
        some, chosen = self.placed(found)
        if not some.admitted(chosen):
            return "the policy is exceeded"
        if min(some.free(chosen).values()) < 0:
            return "a node is overfull"
        if some.zones and len({some.zones[name] for name in chosen}) > 1:
            return "the group is in several zones"
        harm = some.harm(chosen)
        if not preempting:
            return "pods are in the way" if harm[3] else ""
        if self.needed().fits_as_it_is():
            return "pods have to go for a group that fits beside them"
        all_of, needed = self.least(), self.needed().least()
        if all_of is not None:
            return "" if some == self and harm == all_of else f"harm {harm}, not {all_of} for all members"
        if needed is not None:
            # Others than the first members may do less harm.
            return "" if len(chosen) >= self.minimum and harm <= needed else f"harm {harm}, above {needed}"
        return "too few go" if 0 < len(chosen) < self.minimum else ""

    # -- kube-scheduler --------------------------------------------------------------------------

    def answers(self) -> tuple[list[str], bool]:
        """The node that each member is answered, empty for none, and whether pods have to go.

        A member is offered the nodes where it fits beside the members before it: first with all pods that
        run, and if too few members have a node then, without those that may go.
        """
        small, found, preempting = self.cluster(), list[str](), False
        for preempting in (False, True):
            found, free = [], self.free(()) if preempting else self._left()
            for one in self.members:
                offered = [name for name in free if free[name] >= one.requests["cpu"]]
                kept = small.filter(one, offered, offered=True).kept if offered else frozenset[str]()
                assert len(kept) <= 1
                found.append("".join(kept))
                if kept:
                    free[found[-1]] -= one.requests["cpu"]
            if sum(map(bool, found)) >= self.minimum:
                break
        return found, preempting

    def _left(self) -> dict[str, int]:
        """What is free on each node beside all pods that run."""
        free = {name: cpu * CORE for name, cpu in self.nodes.items()}
        for pod in self.running:
            free[pod.node] -= pod.requests["cpu"]
        return free


def generated(seed: int) -> LimitedCase:
    """A random case of two to five nodes."""
    made, dice = group_evictions.generated(seed), random.Random(f"limited {seed}")
    nodes, zones = dict(made.nodes), dict(made.zones)
    if dice.random() < 0.4:
        nodes["n9"] = dice.choice((4, 6, 8))
        if zones:
            zones["n9"] = dice.choice("ab")
    members = [
        small_gangs.pod(
            f"m{at}",
            dice.choice((1, 2, 3, 4)),
            group="g",
            priority=GROUP,
            labels=LIMITED if dice.random() < 0.85 else {},
        )
        for at in range(dice.randint(1, 4))
    ]
    return LimitedCase(
        nodes=nodes,
        running=[
            msgspec.structs.replace(pod, labels={**pod.labels, **LIMITED}) if dice.random() < 0.25 else pod
            for pod in made.running
        ],
        members=members,
        limits=made.limits,
        wholes=made.wholes,
        zones=zones,
        areas={name: dice.choice("rst") for name in nodes if dice.random() < 0.95},
        quotas={area: dice.randint(0, 3) for area in "rst" if dice.random() < 0.9},
        minimum=len(members) if dice.random() < 0.6 else dice.randint(1, len(members)),
    )
