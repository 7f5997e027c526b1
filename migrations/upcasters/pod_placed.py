"""PodPlaced: from version 2 on it names the version of the pod that its Binding carries."""

from migrations.upcasters import steps


def unfenced(fields: steps.Fields) -> steps.Fields:
    """Version 1 -> 2: the Binding carried none."""
    return {**fields, "resource_version": ""}
