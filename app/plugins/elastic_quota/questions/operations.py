"""The overrides ``scaleQuota`` and ``scaleSigsQuota``, by which a hypothetical question changes quotas."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from app.domain import declared_objects, events, observations, snapshots
from app.domain.fit import quantities
from app.framework import supposed_operations
from app.plugins.elastic_quota import decoding, kinds
from app.plugins.elastic_quota.questions import amounts
from app.plugins.elastic_quota.sigs import namespace_quota

Changes = Annotated[
    dict[str, int | str],
    Meta(description='Resource -> quantity: 40, 100Gi, or a change such as "+2".', examples=["cpu=+2"]),
]
QuotaName = Annotated[
    supposed_operations.Name, Meta(description="NAMESPACE/NAME.", examples=["quotas/team-a"])
]


class _Scaled(supposed_operations.Operation, frozen=True):
    """Amounts of a quota are set or changed."""

    KIND: ClassVar[declared_objects.Kind[Any]]

    quota: QuotaName
    min: Changes = msgspec.field(default_factory=dict)
    max: Changes = msgspec.field(default_factory=dict)

    def events(self, snapshot: snapshots.Snapshot) -> Sequence[events.AnyEvent]:
        quota = snapshot.get(self.KIND, self.quota)
        if quota is None:
            raise supposed_operations.Impossible(
                "quota", f"there is no elastic quota {self.quota} at {snapshot.position}"
            )
        if quota.errors:
            raise supposed_operations.Impossible("quota", f"{self.quota} is invalid: {quota.errors[0]}")
        if not self.min and not self.max:
            raise supposed_operations.Invalid("min", "min, max or both are required")
        least, most = _scaled("min", quota.min, self.min), _scaled("max", quota.max, self.max)
        scaled = amounts.replaced(quota, least, most)
        problems = self.KIND.check(scaled)
        if problems:
            raise supposed_operations.Impossible("quota", problems[0])
        return observations.declared(self.KIND, quota, scaled)


class ScaleQuota(_Scaled, frozen=True, tag="scaleQuota"):
    """Amounts of min and max of an ElasticQuota (scheduling.sigs.k8s.io) are set (40) or changed (+2)."""

    usage = "--scale-quota NS/QUOTA max.cpu=+2,..."
    KIND = kinds.QUOTAS


class ScaleSigsQuota(_Scaled, frozen=True, tag="scaleSigsQuota"):
    """Amounts of min and max of a namespace's quota (scheduling.x-k8s.io) are set (40) or changed (+2)."""

    usage = "--scale-sigs-quota NS/QUOTA min.cpu=+2,..."
    KIND = namespace_quota.KIND


def declared() -> tuple[type[supposed_operations.Operation], ...]:
    """The operations on quotas."""
    return ScaleQuota, ScaleSigsQuota


def _scaled(field: str, held: Mapping[str, int], changes: Mapping[str, int | str]) -> dict[str, int]:
    found = dict(held)
    for resource, change in changes.items():
        relative = isinstance(change, str) and change[:1] in ("+", "-")
        if relative and field == "max" and resource not in found:
            text = "the quota does not limit it: only an amount can be set"
            raise supposed_operations.Impossible(f"max.{resource[:40]}", text)
        problems: list[str] = []
        unsigned = str(change)[1:] if relative else change
        read = decoding.amounts(field, {resource: unsigned}, problems)
        if problems:
            raise supposed_operations.Invalid(f"{field}.{resource[:40]}", problems[0])
        amount = read[resource]
        if relative:
            amount = found.get(resource, 0) + (amount if str(change)[0] == "+" else -amount)
        if not 0 <= amount <= quantities.LARGEST:
            written = quantities.written(resource, amount)
            raise supposed_operations.Impossible(f"{field}.{resource}", f"{written} is not an amount")
        found[resource] = amount
    return found
