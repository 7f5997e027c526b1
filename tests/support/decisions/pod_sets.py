"""A plugin that places a whole set with its first pod, each pod on the node that its label names."""

from dataclasses import dataclass
from typing import ClassVar

from app.domain import model, node_sets, verdicts
from app.framework import capabilities, cycles

POD_SET, SEAT = "podset.example/name", "podset.example/seat"
"""Labels of a pod: its set, and the node where it has to run."""
TICKET = "podset.example/ticket"
"""Annotation that its Binding sets; every decision about a pod sets another value."""


@dataclass(frozen=True, slots=True)
class PodSets:
    """Places all pending pods of a set in one commitment."""

    name: ClassVar[str] = "PodSets"

    def interested(self, pod: model.Pod) -> bool:
        return POD_SET in pod.labels

    def indexed(self) -> tuple[str, ...]:
        return (POD_SET,)

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        seat = node_sets.minus(cycle.candidates, frozenset((cycle.pod.labels[SEAT],)))
        return verdicts.Refusal("the set has another seat for the pod", seat) if seat else None

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan:
        pod, snapshot = cycle.pod, cycle.snapshot
        others = [
            other
            for other in snapshot.siblings(pod.namespace, POD_SET, pod.labels[POD_SET])
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
                    labels={"podset.example/decided": "yes"},
                )
                for one in (pod, *sorted(others, key=lambda other: other.name))
            )
        )
