"""A plugin that places a whole group with its first pod, each pod on the node that its label names."""

from dataclasses import dataclass
from typing import ClassVar

from app.domain import model, node_sets, verdicts
from app.framework import capabilities, cycles

CONVOY, SEAT = "convoy.example/name", "convoy.example/seat"
"""Labels of a pod: its convoy, and the node that it has to go to."""
TICKET = "convoy.example/ticket"
"""Annotation that its Binding sets; no two decisions give the same pod the same one."""


@dataclass(frozen=True, slots=True)
class Convoy:
    """Places all waiting pods of a convoy in one commitment."""

    name: ClassVar[str] = "Convoy"

    def interested(self, pod: model.Pod) -> bool:
        return CONVOY in pod.labels

    def indexed(self) -> tuple[str, ...]:
        return (CONVOY,)

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        seat = node_sets.minus(cycle.candidates, frozenset((cycle.pod.labels[SEAT],)))
        return verdicts.Refusal("the convoy has another seat for the pod", seat) if seat else None

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan:
        pod, snapshot = cycle.pod, cycle.snapshot
        others = [
            other
            for other in snapshot.siblings(pod.namespace, CONVOY, pod.labels[CONVOY])
            if other.uid != pod.uid and other.pending and not snapshot.node_of(other.uid)
        ]
        at = snapshot.offset
        return capabilities.Plan(
            tuple(
                capabilities.Assignment(
                    one,
                    one.labels[SEAT],
                    data={"decided": {"at": at, "with": len(others)}},
                    annotations={TICKET: f"{one.name}-{at}"},
                    labels={"convoy.example/decided": "yes"},
                )
                for one in (pod, *sorted(others, key=lambda other: other.name))
            )
        )
