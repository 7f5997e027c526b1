"""A pod and four nodes, for tests of what plugins reserve."""

from app.domain import events, model, projections, snapshots
from app.framework import cycles
from tests.support import declared

POD = model.Pod(uid="uid-p", namespace="ns", name="p")


def cycle(*happened: events.AnyEvent) -> cycles.Cycle:
    """The cycle of the pod for node ``a``."""
    seen = [events.NodeSeen(node=model.Node(name, f"uid-{name}")) for name in "abcd"]
    snapshot = projections.project_all(snapshots.empty(schema=declared.SCHEMA), [*seen, *happened])
    return cycles.cycle(POD, frozenset("a"), snapshot)
