"""Pods inside PodSeen (from version 2 on) and PodPlaced (from version 3 on) have constraints."""

from migrations.upcasters import steps


def unconstrained(fields: steps.Fields) -> steps.Fields:
    """One version later: they were not recorded. Without the field they would be the standard ones."""
    pod = fields.get("pod")
    return {**fields, "pod": {**pod, "constraints": None}} if isinstance(pod, dict) else fields
