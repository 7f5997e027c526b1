"""Old event -> newer event, as dicts, one version at a time.

A step is a pure function over literal field names, kept permanently: it must read what was once
written, whatever the event has become since. Golden files of every version written are in
tests/migrations/golden and are never edited.
"""

from collections.abc import Mapping
from types import MappingProxyType

from migrations.upcasters import placement_released, pod_placed, pods, policies, steps

Fields = steps.Fields
Step = steps.Step

STEPS: Mapping[tuple[str, int], Step] = MappingProxyType(
    {
        ("PlacementReleased", 1): placement_released.caused,
        ("PodPlaced", 1): pod_placed.unfenced,
        ("PlacementsCommitted", 1): pods.unconstrained_placements,
        ("PodPlaced", 2): pod_placed.committed,
        ("PodSeen", 1): pods.unconstrained,
        ("PolicyGone", 1): policies.gone,
        ("PolicySeen", 1): policies.observed,
    },
)
"""(tag, version) -> the step to version + 1. A step that changes ``type`` leads to version 1 of that type."""

RETIRED: Mapping[str, int] = MappingProxyType({"PodPlaced": 2, "PolicyGone": 1, "PolicySeen": 1})
"""Tag that is read and not written -> its last version, whose step leads to another type."""


def upcast(
    tag: str,
    version: int,
    current: Mapping[str, int],
    fields: Fields,
    taken: Mapping[tuple[str, int], Step] = STEPS,
) -> Fields:
    """The fields of an event of ``version`` as those of its current version; ``current``: tag -> version.

    Raises LookupError if a step between them is missing, which is a defect of this program.
    """
    while current.get(tag) != version:
        step = taken.get((tag, version))
        if step is None:
            raise LookupError(f"no upcaster from {tag} version {version} to {version + 1}")
        fields = step(fields)
        renamed = fields.get("type", tag)
        tag, version = (tag, version + 1) if renamed == tag else (str(renamed), 1)
    return fields
