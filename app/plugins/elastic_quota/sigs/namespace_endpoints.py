"""Views of the quotas of namespaces."""

from collections.abc import Mapping
from typing import Any

from app.domain import snapshots
from app.domain.fit import quantities
from app.framework import views
from app.plugins.elastic_quota import quota_counts
from app.plugins.elastic_quota.sigs import namespace_counts, namespace_quota
from app.plugins.elastic_quota.sigs.namespace_quota import NamespaceQuota

Json = dict[str, Any]

SAMPLE = {
    "name": "team-a",
    "namespace": "team-a",
    "valid": True,
    "errors": [],
    "warnings": [],
    "min": {"cpu": "10"},
    "max": {"cpu": "20"},
    "used": {"cpu": "12"},
    "borrowed": {"cpu": "2"},
    "headroom": {"cpu": "4"},
    "allUsed": {"cpu": "16"},
    "allMin": {"cpu": "20"},
}

TABLE = views.Table(
    "sigsquotas",
    "sigsquotas",
    "elastic quotas of namespaces (scheduling.x-k8s.io)",
    {
        "NAMESPACE": "namespace",
        "QUOTA": "name",
        "VALID": "valid",
        "MIN": "min",
        "MAX": "max",
        "USED": "used",
        "BORROWED": "borrowed",
        "HEADROOM": "headroom",
        "ERRORS": "errors",
    },
    named=True,
    namespace="namespace",
)


def _listed(snapshot: snapshots.Snapshot, _: Mapping[str, str]) -> views.Listed:
    held = snapshot.all(namespace_quota.KIND)
    return views.Listed(held, lambda identity: _summary(snapshot, held[identity]))


def _one(snapshot: snapshots.Snapshot, parameters: Mapping[str, str]) -> Json | None:
    quota = snapshot.all(namespace_quota.KIND).get("{namespace}/{name}".format(**parameters))
    return None if quota is None else _summary(snapshot, quota)


def _summary(snapshot: snapshots.Snapshot, quota: NamespaceQuota) -> Json:
    known = namespace_quota.namespaces(snapshot.objects)
    unused = known.unused.get(quota.key)
    named = sorted({*quota.min, *quota.max})
    used = {resource: 0 if unused else _used(snapshot, quota.namespace, resource) for resource in named}
    everywhere = {resource: _used(snapshot, namespace_counts.ALL, resource) for resource in named}
    together = {resource: known.total.get(resource, 0) for resource in named}
    errors = list(quota.errors) if unused is None else [unused]
    headroom = {
        resource: min(
            together[resource] - everywhere[resource],
            quota.max[resource] - used[resource] if resource in quota.max else together[resource],
        )
        for resource in named
    }
    write = quantities.all_written
    return {
        "name": quota.name,
        "namespace": quota.namespace,
        "valid": not errors,
        "errors": errors,
        "warnings": list(quota.warnings),
        "min": write(quota.min),
        "max": write(quota.max),
        "used": write(used),
        "borrowed": write({one: over for one in named if (over := used[one] - quota.min.get(one, 0)) > 0}),
        "headroom": write({} if errors else {one: max(0, free) for one, free in headroom.items()}),
        "allUsed": write(everywhere),
        "allMin": write(together),
    }


def _used(snapshot: snapshots.Snapshot, namespace: str, resource: str) -> int:
    return quota_counts.amount(resource, namespace_counts.used(snapshot, namespace, resource))


def numbers(snapshot: snapshots.Snapshot, name: str) -> Mapping[str, int]:
    """Line -> percent, rounded down: what the namespace uses, and its min.

    Of the max, or of what all quotas have as min if there is no max. Empty for a quota that limits nothing.
    """
    quota = snapshot.all(namespace_quota.KIND).get(name)
    known = namespace_quota.namespaces(snapshot.objects)
    if quota is None or name in known.unused:
        return {}
    found = {}
    for resource in sorted({*quota.min, *quota.max}):
        bounded = resource in quota.max
        most = quota.max[resource] if bounded else known.total.get(resource, 0)
        if most:
            of = "max" if bounded else "all min"
            found[f"{resource} used, % of {of}"] = 100 * _used(snapshot, quota.namespace, resource) // most
            found[f"{resource} min, % of {of}"] = 100 * quota.min.get(resource, 0) // most
    return found


ENDPOINTS = (
    views.Endpoint("sigsquotas", "All quotas of namespaces (scheduling.x-k8s.io)", _listed, [SAMPLE]),
    views.Endpoint(
        "sigsquotas/<namespace>/<name>", "The quota of a namespace, and what it may borrow", _one, SAMPLE
    ),
)
