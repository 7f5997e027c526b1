"""What a bind of a pod would commit."""

from app.domain import model
from app.framework import cycles, plans, registry


def of(plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName) -> plans.Commitment:
    """The commitment, where no plugin refuses it."""
    made = plans.commitment(plugins, cycle, node)
    assert isinstance(made, plans.Commitment), made
    return made
