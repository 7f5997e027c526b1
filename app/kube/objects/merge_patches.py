"""Merge patches (RFC 7386): null removes a field, objects are merged, other values and lists are replaced."""

from collections.abc import Mapping
from typing import Any


def merge(value: object, patch: object) -> object:
    """The value after the patch."""
    if not isinstance(patch, dict):
        return patch
    merged: dict[str, object] = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), change)
    return merged


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that makes ``after`` of ``before``, by key."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        held = before.get(key)
        if isinstance(value, Mapping) and isinstance(held, Mapping):
            inner = difference(held, value)
            if inner:
                patch[key] = inner
        elif key not in before or held != value:
            patch[key] = value
    return dict(sorted(patch.items()))
