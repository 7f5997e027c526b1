"""The kinds that the plugin declares: the ElasticQuota of Koordinator, and that of kubernetes-sigs."""

from typing import Any

from app.domain import declared_objects
from app.plugins.elastic_quota import decoding, quota_model
from app.plugins.elastic_quota.sigs import namespace_quota

MOVED = "quotas:all"
"""Moved on by every change of a quota; all placements expect its version."""


def moves(_: str) -> tuple[str, ...]:
    """A change of one quota may move any pod to another quota, in any namespace."""
    return (MOVED,)


QUOTAS = declared_objects.Kind(
    name="elasticquotas",
    group="scheduling.sigs.k8s.io",
    versions=("v1alpha1",),
    resource="elasticquotas",
    manifest="ElasticQuota",
    type=quota_model.Quota,
    decode=decoding.quota,
    check=decoding.check,
    spec=decoding.SPEC,
    optional=True,
    prefix="quota",
    alias="quotas",
    moves=moves,
)


def declared() -> tuple[declared_objects.Kind[Any], ...]:
    """All kinds of the plugin."""
    return QUOTAS, namespace_quota.KIND
