"""Old event -> newer event, as dicts, one version at a time.

A step is a pure function over literal field names, kept for ever: it must read what was once
written, whatever the event has become since. Golden files of every version written are in
tests/migrations/golden and are never edited.
"""

from collections.abc import Mapping
from types import MappingProxyType

from migrations.upcasters import placement_released, pod_placed, policies, steps

Fields = steps.Fields
Step = steps.Step

STEPS: Mapping[tuple[str, int], Step] = MappingProxyType(
    {
        ("PlacementReleased", 1): placement_released.caused,
        ("PodPlaced", 1): pod_placed.unfenced,
        ("PolicyGone", 1): policies.gone,
        ("PolicySeen", 1): policies.observed,
    },
)
"""(tag, version) -> the step to version + 1. The last step of an event that was
renamed changes ``type``, and its fields are those of version 1 of that type."""

RENAMED: Mapping[str, int] = MappingProxyType({"PolicyGone": 2, "PolicySeen": 2})
"""Former tag -> the version at which it became version 1 of another one."""


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
