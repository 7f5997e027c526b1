"""The kind that the plugin declares: PodDisruptionBudget."""

from collections.abc import Iterable

from app.domain import declared_objects, snapshots
from app.domain.fit import budgets
from app.framework import manifests
from app.plugins.preemption_rules import decoding

BUDGETS = declared_objects.Kind(
    name="poddisruptionbudgets",
    group="policy",
    versions=("v1",),
    resource="poddisruptionbudgets",
    manifest="PodDisruptionBudget",
    type=budgets.DisruptionBudget,
    decode=decoding.budget,
    check=decoding.check,
    spec={
        "minAvailable": {},
        "maxUnavailable": {},
        "selector": manifests.SELECTOR,
        "unhealthyPodEvictionPolicy": {},
        declared_objects.MORE: {},
    },
    status={"disruptionsAllowed": "the disruption controller"},
)


def declared() -> tuple[declared_objects.Kind[budgets.DisruptionBudget], ...]:
    """All kinds of the plugin."""
    return (BUDGETS,)


def known(snapshot: snapshots.Snapshot) -> Iterable[budgets.DisruptionBudget] | None:
    """The budgets of the cluster; None if they had never been listed at that moment."""
    found = snapshot.all(BUDGETS)
    return found.values() if found or BUDGETS.name not in snapshot.unlisted else None
