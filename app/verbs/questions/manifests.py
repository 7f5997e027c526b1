"""Manifests as people write them, decoded by the decoders that the watch uses."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from app.domain import model
from app.framework import supposed_operations
from app.kube import errors as kube_errors
from app.kube.objects import decoding, pod_defaults, pod_requests

_LONGEST_NAME = 253
"""Characters of the name of an object, as Kubernetes limits it."""
_UNADMITTED = (
    "not modelled: what admission adds to the pod of a manifest, such as requests of a LimitRange or overhead"
    " of a RuntimeClass"
)


def pod(manifest: Mapping[str, Any], field: str) -> model.Pod:
    """The pod of a manifest, with the API server's defaults; without a uid, one that follows from its name.

    Raises Invalid.
    """
    given = pod_defaults.defaulted(manifest)
    try:
        found = decoding.pod(complete(given, field, namespaced=True, default="default"))
    except kube_errors.Undecodable as error:
        raise supposed_operations.Invalid(field, f"{error}") from error
    _check_class(manifest, field)
    return found


def limits(given: Iterable[Mapping[str, Any]]) -> list[str]:
    """What answers about pods of these manifests, which ``pod`` took, do not model, as sentences."""
    pods = list(given)
    classes = list(dict.fromkeys(filter(None, map(unknown_priority, pods))))
    found = [] if all(map(_admitted, pods)) else [_UNADMITTED]
    if classes:
        named = ", ".join([*classes[:5], *(["..."] if len(classes) > 5 else [])])
        text = "the priority is taken as 0: PriorityClasses are not recorded; write spec.priority"
        found.append(f"of pods with the priorityClassName {named}, {text}")
    return found


def unknown_priority(manifest: Mapping[str, Any]) -> str:
    """The PriorityClass of a pod whose manifest does not state its priority; empty otherwise."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict) or spec.get("priority") is not None:
        return ""
    return str(spec.get("priorityClassName") or "")


def _admitted(manifest: Mapping[str, Any]) -> bool:
    """Whether it is that of a pod which exists, as the API server shows it."""
    return any(manifest["metadata"].get(field) for field in ("creationTimestamp", "resourceVersion"))


def _check_class(manifest: Mapping[str, Any], field: str) -> None:
    """Raises Invalid for the name of a PriorityClass that none can have."""
    spec = manifest.get("spec")
    name = spec.get("priorityClassName") if isinstance(spec, dict) else None
    if name is not None and not (isinstance(name, str) and len(name) <= _LONGEST_NAME):
        text = f"a text of at most {_LONGEST_NAME} characters is required"
        raise supposed_operations.Invalid(f"{field}.spec.priorityClassName", text)


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
