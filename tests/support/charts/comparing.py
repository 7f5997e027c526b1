"""Compares objects of the chart with those of an overlay."""

import copy
import json
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
        found[identity] = in_order(_common(one))
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


def in_order(value: object) -> object:
    """The same with every list of objects in one order: their order has no meaning where they have names."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        listed = [in_order(each) for each in value]
        return sorted(listed, key=_text) if value and isinstance(value[0], dict) else listed
    return value


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
