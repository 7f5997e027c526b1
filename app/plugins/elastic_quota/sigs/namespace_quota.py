"""The quota of a namespace as it is kept, its decoding, and the kind that the plugin declares.

The API is elasticquotas of scheduling.x-k8s.io (apis/scheduling/v1alpha1/types.go): min, max, and no trees.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

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
    optional=True,
    prefix="sigsquota",
    alias="sigsquotas",
    moves=_moves,
)


def namespaces(objects: declared_objects.Objects) -> Namespaces:
    """The quotas in force, found once for each state of the quotas."""
    return objects.derived(KIND, __name__, lambda: _namespaces(objects))


def _namespaces(objects: declared_objects.Objects) -> Namespaces:
    quotas: dict[str, NamespaceQuota] = {}
    unused: dict[str, str] = {}
    total: dict[str, int] = {}
    held: Any = objects.all(KIND).values()
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
