"""Old event -> newer event, as dicts, one version at a time.

A step is a pure function over literal field names, kept for ever: it must read what was once
written, whatever the event has become since. Golden files of every version written are in
tests/migrations/golden and are never edited.
"""

from collections.abc import Mapping
from types import MappingProxyType

from migrations.upcasters import placement_released, pod_placed, pods, steps

Fields = steps.Fields
Step = steps.Step

STEPS: Mapping[tuple[str, int], Step] = MappingProxyType(
    {
        ("PlacementReleased", 1): placement_released.caused,
        ("PodPlaced", 1): pod_placed.unfenced,
        ("PodPlaced", 2): pods.unconstrained,
        ("PodSeen", 1): pods.unconstrained,
    },
)
"""(tag, version) -> the step to version + 1. A step may change ``type`` if an event was renamed."""


def upcast(
    tag: str, version: int, current: int, fields: Fields, taken: Mapping[tuple[str, int], Step] = STEPS
) -> Fields:
    """The fields of an event of ``version`` as those of version ``current``.

    Raises LookupError if a step between them is missing, which is a defect of this program.
    """
    for number in range(version, current):
        step = taken.get((tag, number))
        if step is None:
            raise LookupError(f"no upcaster from {tag} version {number} to {number + 1}")
        fields = step(fields)
    return fields
