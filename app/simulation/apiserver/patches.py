"""The part of strategic merge patches that pods and nodes need."""

from typing import Any

KEYS = {"conditions": "type", "containers": "name", "taints": "key", "ownerReferences": "uid", "env": "name"}
"""Lists that a strategic patch merges by a key of their elements; every other list is replaced."""


def merge_strategically(target: object, patch: object, *, field: str = "") -> object:
    """A strategic merge patch: as a merge patch, and the lists in KEYS are merged by key."""
    if isinstance(patch, list) and field in KEYS:
        return _by_key(target if isinstance(target, list) else [], patch, KEYS[field])
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_strategically(merged.get(key), value, field=key)
    return merged


def _by_key(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    merged = {element.get(key): element for element in target}
    for element in patch:
        name = element.get(key)
        if element.get("$patch") == "delete":
            merged.pop(name, None)
        else:
            merged[name] = merge_strategically(merged.get(name, {}), element)
    return list(merged.values())
