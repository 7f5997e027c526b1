"""Amounts of quotas that are other than recorded."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from app.domain import declared_objects, snapshots
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


def raised_quotas(snapshot: snapshots.Snapshot, raised: Raised) -> dict[tuple[str, str], AnyQuota]:
    """Kind and identity -> the quota with these amounts."""
    found: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for place, amount in raised.items():
        quota = _held(snapshot, place.kind, place.identity)
        fields = found.setdefault(place[:2], {"min": dict(quota.min), "max": dict(quota.max)})
        fields[place.field][place.resource] = amount
    return {of: replaced(_held(snapshot, *of), fields["min"], fields["max"]) for of, fields in found.items()}


def changes(snapshot: snapshots.Snapshot, raised: Raised) -> tuple[cluster_changes.Change, ...]:
    """The observations of the quotas with these amounts, one for each quota."""
    found = sorted(raised_quotas(snapshot, raised).items())
    return tuple(partial(_KINDS[kind].observed, quota) for (kind, _), quota in found)


def _held(snapshot: snapshots.Snapshot, kind: str, identity: str) -> AnyQuota:
    found: AnyQuota = snapshot.all(_KINDS[kind])[identity]
    return found
