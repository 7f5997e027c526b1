"""PodPlaced: from version 2 on it names the version of the pod that its Binding carries.

After version 2 it is PlacementsCommitted, which holds any number of placements.
"""

from migrations.upcasters import steps


def unfenced(fields: steps.Fields) -> steps.Fields:
    """Version 1 -> 2: the Binding carried none."""
    return {**fields, "resource_version": ""}


def committed(fields: steps.Fields) -> steps.Fields:
    """Version 2 -> PlacementsCommitted version 1: one placement, without data of plugins."""
    placement = {name: fields[name] for name in ("pod", "node", "resource_version") if name in fields}
    of_event: steps.Fields = {name: fields[name] for name in ("at", "by") if name in fields}
    return {"type": "PlacementsCommitted", "placements": [placement], **of_event}
