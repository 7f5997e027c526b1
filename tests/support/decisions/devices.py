"""A plugin that assigns a device of its node to each pod, and counts them by the annotations of pods."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from app.domain import declared_objects, model, schema, snapshots, verdicts
from app.framework import capabilities, cycles
from tests.support import declared

WANTED = "example.com/device"
"""Label of the pods that get a device."""
DEVICES = "devices"
"""Label of a node: how many it has."""
ASSIGNED = "example.com/assigned"
"""Annotation that the Binding sets: the number of the device."""
FULL = "no device is free"


def key(node: model.NodeName, device: int | str) -> schema.CountKey:
    """The count of the pods that have the device: 0 or 1."""
    return f"devices|{node}|{device}"


def _contributions(
    pod: model.Pod, node: model.Node, _: declared_objects.Objects
) -> Iterator[tuple[schema.CountKey, int]]:
    if pod.counted and ASSIGNED in pod.annotations:
        yield key(node.name, pod.annotations[ASSIGNED]), 1


COUNTER = schema.Counter(
    family="devices",
    form=1,
    contributions=_contributions,
    pod_fields=("annotations", "phase", "terminating"),
    node_fields=("name",),
)
SCHEMA = schema.Schema(declared.SCHEMA.kinds, (*declared.SCHEMA.counters, COUNTER))
"""This version's schema, and devices."""


def free(snapshot: snapshots.Snapshot, name: model.NodeName) -> list[int]:
    """The devices of the node that no pod has."""
    number = int(snapshot.nodes[name].labels.get(DEVICES, "0"))
    return [device for device in range(number) if not snapshot.counts.get(key(name, device))]


@dataclass(frozen=True, slots=True)
class Devices:
    """Assigns the first free device, which a ceiling protects."""

    name: ClassVar[str] = "Devices"

    def counters(self) -> tuple[schema.Counter, ...]:
        return (COUNTER,)

    def annotations(self) -> tuple[str, ...]:
        return (ASSIGNED,)

    def interested(self, pod: model.Pod) -> bool:
        return WANTED in pod.labels

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        refused = frozenset(name for name in cycle.candidates if not free(cycle.snapshot, name))
        return verdicts.Refusal(FULL, refused) if refused else None

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan | verdicts.Refusal:
        for device in free(cycle.snapshot, node):
            assigned = {ASSIGNED: str(device)}
            return capabilities.Plan(
                (capabilities.Assignment(cycle.pod, node, annotations=assigned),),
                ceilings={key(node, device): 1},
            )
        return verdicts.Refusal(FULL, frozenset((node,)))
