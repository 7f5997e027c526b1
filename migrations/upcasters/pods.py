"""Pods have constraints in PodSeen and PlacementsCommitted from version 2 on."""

from migrations.upcasters import steps


def unconstrained(fields: steps.Fields) -> steps.Fields:
    """PodSeen 1 -> 2: they were not recorded. Without the field they would be the standard ones."""
    return {**fields, "pod": _bare(fields.get("pod"))}


def unconstrained_placements(fields: steps.Fields) -> steps.Fields:
    """PlacementsCommitted 1 -> 2: the same for the pod of each placement."""
    placements = fields.get("placements")
    if not isinstance(placements, list):
        return fields
    return {**fields, "placements": [{**one, "pod": _bare(one.get("pod"))} for one in placements]}


def _bare(pod: object) -> object:
    return {**pod, "constraints": None} if isinstance(pod, dict) else pod
