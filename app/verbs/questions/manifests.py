"""Manifests as people write them, decoded by the decoders that the watch uses."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.domain import model
from app.framework import supposed_operations
from app.kube import errors as kube_errors
from app.kube.objects import decoding, pod_requests


def pod(manifest: Mapping[str, Any], field: str) -> model.Pod:
    """The pod of a manifest; without a uid, one that follows from its name. Raises Invalid."""
    try:
        return decoding.pod(complete(manifest, field, namespaced=True, default="default"))
    except kube_errors.Undecodable as error:
        raise supposed_operations.Invalid(field, f"{error}") from error


def amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    """Quantities in the model's units. Raises Invalid, also for one below zero."""
    try:
        found = dict(pod_requests.amounts(tuple(quantities.items())))
    except ValueError as error:
        raise supposed_operations.Invalid("allocatable", f"{error}") from error
    for name, amount in found.items():
        if amount < 0:
            raise supposed_operations.Invalid("allocatable", f"{name} is negative: {quantities[name]}")
    return found


def complete(manifest: Mapping[str, Any], field: str, *, namespaced: bool, default: str = "") -> bytes:
    """The manifest as JSON, with the parts that the API server would add: a uid, and the default namespace.

    Raises Invalid, also for an object that has to name its namespace: it depends on who applies it.
    """
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise supposed_operations.Invalid(f"{field}.metadata", "an object with a name is required")
    # A null means absent, as everywhere in Kubernetes.
    given = {key: value for key, value in metadata.items() if value is not None}
    spelled = {**given, "namespace": given.get("namespace") or default} if namespaced else given
    if namespaced and not spelled["namespace"]:
        text = "a namespace is required; name it in metadata.namespace"
        raise supposed_operations.Invalid(f"{field}.metadata", text)
    spelled.setdefault("uid", f"supposed:{spelled.get('namespace', '')}:{spelled['name']}")
    return msgspec.json.encode({**manifest, "metadata": spelled})
