"""Compares objects of the chart with those of an overlay."""

import copy
from collections.abc import Iterable

from tests.support import manifests

Object = manifests.Object

_OF_HELM = ("app.kubernetes.io/part-of", "app.kubernetes.io/managed-by", "helm.sh/chart")
"""Labels that only one side has on every object; none is on a pod or in a selector."""
_KEPT = "helm.sh/resource-policy"


def by_identity(objects: Iterable[Object]) -> dict[tuple[str, str, str], object]:
    """Kind, namespace and name -> what both sides have to have in common; without hooks and the namespace."""
    found = {}
    for one in objects:
        if one["kind"] == "Namespace" or is_hook(one):
            continue
        metadata = one["metadata"]
        identity = (one["kind"], metadata.get("namespace", ""), metadata["name"])
        assert identity not in found, identity
        found[identity] = manifests.in_order(_common(one))
    return found


def is_hook(one: Object) -> bool:
    """Whether it exists only while ``helm test`` runs."""
    return "helm.sh/hook" in one["metadata"].get("annotations", {})


def _common(one: Object) -> Object:
    made = copy.deepcopy(one)
    metadata = made["metadata"]
    for field, names in (("labels", _OF_HELM), ("annotations", (_KEPT,))):
        for name in names:
            metadata.get(field, {}).pop(name, None)
        if not metadata.get(field, {"": ""}):
            del metadata[field]
    return made
