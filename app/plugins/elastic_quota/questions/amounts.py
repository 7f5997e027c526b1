"""Amounts of quotas that are other than recorded."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from app.domain import declared_objects, projections, snapshots
from app.framework import cluster_changes
from app.plugins.elastic_quota import kinds, quota_model
from app.plugins.elastic_quota.sigs import namespace_quota

AnyQuota = quota_model.Quota | namespace_quota.NamespaceQuota
Held = TypeVar("Held", bound=AnyQuota)
_KINDS: Mapping[str, declared_objects.Kind[Any]] = {kind.name: kind for kind in kinds.declared()}


class Place(NamedTuple):
    """Where an amount is written."""

    kind: str
    """Name of the kind of the quota."""
    identity: str
    field: Literal["min", "max"]
    resource: str


Raised = Mapping[Place, int]
"""Amounts in the place of those that are recorded."""


def replaced(quota: Held, least: Mapping[str, int], most: Mapping[str, int]) -> Held:
    """The quota with another min and max, as its decoding would keep them."""
    return msgspec.structs.replace(quota, min=dict(sorted(least.items())), max=dict(sorted(most.items())))


def recorded(snapshot: snapshots.Snapshot, place: Place) -> int | None:
    """The amount in the snapshot; None if the quota does not name the resource there."""
    quota = _held(snapshot, place.kind, place.identity)
    held: Mapping[str, int] = getattr(quota, place.field)
    return held.get(place.resource)


def changes(snapshot: snapshots.Snapshot, raised: Raised) -> tuple[cluster_changes.Change, ...]:
    """The observations of the quotas with these amounts, one for each quota."""
    found: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for place, amount in raised.items():
        quota = _held(snapshot, place.kind, place.identity)
        fields = found.setdefault(place[:2], {"min": dict(quota.min), "max": dict(quota.max)})
        fields[place.field][place.resource] = amount
    return tuple(_change(snapshot, *of, fields["min"], fields["max"]) for of, fields in sorted(found.items()))


def folded(snapshot: snapshots.Snapshot, raised: Raised) -> snapshots.Snapshot:
    """The snapshot with these amounts."""
    return projections.project_all(snapshot, [make() for make in changes(snapshot, raised)])


def _change(
    snapshot: snapshots.Snapshot, kind: str, identity: str, least: dict[str, int], most: dict[str, int]
) -> cluster_changes.Change:
    quota = replaced(_held(snapshot, kind, identity), least, most)
    return lambda: _KINDS[kind].observed(quota)


def _held(snapshot: snapshots.Snapshot, kind: str, identity: str) -> AnyQuota:
    found: AnyQuota = snapshot.all(_KINDS[kind])[identity]
    return found
