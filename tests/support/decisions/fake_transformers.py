"""Transformers: of the pod, of the candidates, of single nodes and of scores, and some with a defect."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec

from app.domain import events, model, node_sets, projections, verdicts
from app.framework import cycles
from tests.support.decisions import fake_plugins


@dataclass(frozen=True, slots=True)
class Growing(fake_plugins.Idle):
    """Adds milli-cores to the request of every pod."""

    name: str = "Growing"
    more: int = 1000

    def transform(self, cycle: cycles.Cycle) -> cycles.Cycle:
        requests = {**cycle.pod.requests, "cpu": cycle.pod.requests.get("cpu", 0) + self.more}
        return replace(cycle, pod=msgspec.structs.replace(cycle.pod, requests=requests))


@dataclass(frozen=True, slots=True)
class Shrinking(fake_plugins.Idle):
    """Lowers the request of every pod to so many milli-cores."""

    name: str = "Shrinking"
    to: int = 1000

    def transform(self, cycle: cycles.Cycle) -> cycles.Cycle:
        pod = msgspec.structs.replace(cycle.pod, requests={**cycle.pod.requests, "cpu": self.to})
        return replace(cycle, pod=pod)


@dataclass(frozen=True, slots=True)
class Narrowing(fake_plugins.Idle):
    """Takes out the nodes with a label."""

    name: str = "Narrowing"
    key: str = "x"

    def transform(self, cycle: cycles.Cycle) -> cycles.Cycle:
        kept = (node for node in cycle.candidates if self.key not in cycle.snapshot.nodes[node].labels)
        return replace(cycle, candidates=frozenset(kept))


@dataclass(frozen=True, slots=True)
class Refusing(fake_plugins.Idle):
    """Refuses every pod."""

    name: str = "Refusing"

    def transform(self, cycle: cycles.Cycle) -> verdicts.Refusal:
        return verdicts.Refusal("closed for today", node_sets.NONE)


@dataclass(frozen=True, slots=True)
class Misbehaving(fake_plugins.Idle):
    """Does what it is given, to pods of a name."""

    name: str = "Misbehaving"
    does: Callable[[cycles.Cycle], object] = field(default=lambda cycle: cycle)
    pod: str = ""
    """Empty for every pod."""

    def transform(self, cycle: cycles.Cycle) -> cycles.Cycle:
        made = self.does(cycle) if self.pod in ("", cycle.pod.name) else cycle
        return cast(cycles.Cycle, made)


@dataclass(frozen=True, slots=True)
class Emptying(fake_plugins.Idle):
    """Shows some nodes as if the pods there were gone, and notes for which it is asked."""

    name: str = "Emptying"
    nodes: node_sets.Names = node_sets.NONE
    asked: list[model.NodeName] = field(default_factory=list)

    def viewed(self, cycle: cycles.Cycle) -> node_sets.Names:
        return self.nodes

    def transform_node(self, cycle: cycles.Cycle, node: model.NodeName) -> cycles.Cycle | None:
        self.asked.append(node)
        found = list(cycle.snapshot.on(node))
        gone = [events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name) for pod in found]
        if not gone:
            return None
        after = projections.project_all(cycle.snapshot, gone)
        return replace(cycle, snapshot=replace(after, position=cycle.snapshot.position))


@dataclass(frozen=True, slots=True)
class Reserving(fake_plugins.Idle):
    """Keeps what pods with the label ``reserve`` request for the pods with the label ``owner``.

    An owner may use all of it. For others, what owners on the node use is a part of it, and counts once.
    """

    name: str = "Reserving"

    def viewed(self, cycle: cycles.Cycle) -> node_sets.Names:
        pods = (pod for node in cycle.candidates for pod in cycle.snapshot.on(node))
        return frozenset(pod.node for pod in pods if "reserve" in pod.labels)

    def transform_node(self, cycle: cycles.Cycle, node: model.NodeName) -> cycles.Cycle | None:
        found = list(cycle.snapshot.on(node))
        held = next(pod for pod in found if "reserve" in pod.labels)
        used = sum(pod.requests["cpu"] for pod in found if "owner" in pod.labels)
        left = 0 if "owner" in cycle.pod.labels else max(0, held.requests["cpu"] - used)
        seen = events.PodSeen(pod=msgspec.structs.replace(held, requests={"cpu": left}))
        after = projections.project(cycle.snapshot, seen)
        return replace(cycle, snapshot=replace(after, position=cycle.snapshot.position))


@dataclass(frozen=True, slots=True)
class Fitting(fake_plugins.Idle):
    """Refuses nodes without enough cores."""

    name: str = "Fitting"

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        asked = cycle.pod.requests["cpu"]
        full = frozenset(
            name
            for name in cycle.candidates
            if sum(pod.requests["cpu"] for pod in cycle.snapshot.on(name)) + asked
            > cycle.snapshot.nodes[name].allocatable["cpu"]
        )
        return verdicts.Refusal("no cores left", full)
