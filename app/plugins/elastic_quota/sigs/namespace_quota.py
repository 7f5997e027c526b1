"""The quota of a namespace as it is kept, its decoding, and the kind that the plugin declares.

The API is elasticquotas of scheduling.x-k8s.io (apis/scheduling/v1alpha1/types.go): min, max, and no trees.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from app.domain import declared_objects, model
from app.plugins.elastic_quota import decoding
from app.plugins.elastic_quota.quota_model import Amounts

MOVED = "sigsquotas:all"
"""Moved on by every change of a quota; all placements expect its version."""


class NamespaceQuota(model.DeclaredObject, frozen=True):
    """An ElasticQuota of scheduling.x-k8s.io: what its namespace is guaranteed, and its limits."""

    min: Amounts = msgspec.field(default_factory=dict)
    max: Amounts = msgspec.field(default_factory=dict)
    errors: tuple[str, ...] = ()
    """Why the specification is invalid; empty if it is valid."""
    warnings: tuple[str, ...] = ()
    """What is unusual about it."""
    created: str = ""


class Namespaces(NamedTuple):
    """The quotas in force."""

    quotas: Mapping[str, NamespaceQuota]
    """Namespace -> its quota: the oldest one."""
    unused: Mapping[str, str]
    """Identity -> why the quota limits nothing."""
    total: Amounts
    """Sum of the mins of the quotas in force; has every resource that one of them names in min or max."""


def _decoded(raw: bytes | msgspec.Raw) -> NamespaceQuota:
    """The quota of its JSON. Raises ValueError only if it cannot be identified."""
    seen = decoding.manifest(raw)
    errors: list[str] = []
    given = decoding.specified(seen.spec, errors)
    least = decoding.amounts("spec.min", given.get("min"), errors)
    most = decoding.amounts("spec.max", given.get("max"), errors)
    above = [resource for resource, amount in least.items() if amount > most.get(resource, amount)]
    return NamespaceQuota(
        uid=seen.metadata.uid,
        namespace=seen.metadata.namespace,
        name=seen.metadata.name,
        created=seen.metadata.creation_timestamp or "",
        min=least,
        max=most,
        errors=decoding.few(errors),
        warnings=decoding.few([f"spec.min of {resource} is more than spec.max" for resource in above]),
    )


def _check(found: NamespaceQuota) -> tuple[str, ...]:
    """What a quota with these fields would be refused for."""
    return decoding.few(decoding.refused({"spec.min": found.min, "spec.max": found.max}))


def _moves(_: str) -> tuple[str, ...]:
    """The quotas of all namespaces limit what each of them may borrow."""
    return (MOVED,)


KIND = declared_objects.Kind(
    name="sigselasticquotas",
    group="scheduling.x-k8s.io",
    versions=("v1alpha1",),
    resource="elasticquotas",
    manifest="ElasticQuota",
    type=NamespaceQuota,
    decode=_decoded,
    check=_check,
    spec=decoding.SPEC,
    optional=True,
    prefix="sigsquota",
    alias="sigsquotas",
    moves=_moves,
)


def namespaces(objects: declared_objects.Objects) -> Namespaces:
    """The quotas in force, for each state of them: found again only if more than amounts has changed."""

    def compute(former: Namespaces | None, changed: Iterable[str]) -> Namespaces:
        found = objects.all(KIND)
        amended = None if former is None else _amended(former, map(found.get, changed))
        return _namespaces(found.values()) if amended is None else amended

    return objects.followed(KIND, __name__, compute)


def _amended(former: Namespaces, changed: Iterable[NamespaceQuota | None]) -> Namespaces | None:
    """With these in place of the quotas of their namespaces; None if they differ in more than amounts."""
    quotas, total = dict(former.quotas), dict(former.total)
    for quota in changed:
        before = None if quota is None else quotas.get(quota.namespace)
        if quota is None or before is None or not _alike(before, quota):
            return None
        quotas[quota.namespace] = quota
        for resource in {*before.min, *quota.min}:
            total[resource] += quota.min.get(resource, 0) - before.min.get(resource, 0)
    return Namespaces(quotas, former.unused, total)


def _alike(one: NamespaceQuota, other: NamespaceQuota) -> bool:
    """Whether two objects are the same quota, of which amounts alone differ, and name the same resources."""
    if {*one.min, *one.max} != {*other.min, *other.max}:
        return False
    return msgspec.structs.replace(other, min=one.min, max=one.max) == one


def _namespaces(held: Iterable[NamespaceQuota]) -> Namespaces:
    quotas: dict[str, NamespaceQuota] = {}
    unused: dict[str, str] = {}
    total: dict[str, int] = {}
    for quota in sorted(held, key=lambda one: (one.created, one.uid)):
        first = quotas.setdefault(quota.namespace, quota)
        if first is not quota:
            unused[quota.key] = f"its namespace has the older quota {first.name}"
            continue
        for resource in (*quota.min, *quota.max):
            total.setdefault(resource, 0)
        for resource, amount in quota.min.items():
            total[resource] += amount
    return Namespaces(quotas, unused, total)
