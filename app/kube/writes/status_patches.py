"""Reads objects, and patches their status and annotations, guarded by the resourceVersion.

All patches are merge patches (RFC 7386).
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from app.kube import errors
from app.kube.client import clients
from app.kube.objects import merge_patches

Json = dict[str, Any]

_TIMEOUT = 5.0
"""Seconds for one call."""

_encode = msgspec.json.Encoder().encode


class CurrentObject(NamedTuple):
    """An object as the API server has it."""

    version: str
    """resourceVersion."""
    generation: int
    """metadata.generation: of the specification."""
    status: Mapping[str, Any]
    """Empty without a status."""
    body: bytes
    annotations: Mapping[str, Any] = MappingProxyType({})


def read(client: clients.Client, path: str) -> CurrentObject:
    """The object at the path. Raises ApiError (404: it is gone), Unreachable or Undecodable."""
    return _current(client.get(path, timeout=_TIMEOUT), path)


def patch(
    client: clients.Client,
    path: str,
    current: CurrentObject,
    status: Mapping[str, Any],
) -> CurrentObject:
    """Replace the status of the object that was read; the object as it is then.

    Raises ApiError (404: the object is gone, or its kind has no status subresource; 409: it has another
    version) or Unreachable.
    """
    body = _encode(
        {
            "metadata": {"resourceVersion": current.version},
            "status": merge_patches.difference(current.status, status),
        }
    )
    return _current(client.patch(f"{path}/status", body, timeout=_TIMEOUT), path)


def annotate(
    client: clients.Client,
    path: str,
    current: CurrentObject,
    annotations: Mapping[str, str | None],
    status: Mapping[str, Any],
) -> CurrentObject:
    """Change annotations of the object that was read; the object as it is then.

    The patch has the status, too: the API server takes it from there if the kind has no status subresource,
    and ignores it otherwise. Raises as ``patch``.
    """
    body = _encode(
        {
            "metadata": {"resourceVersion": current.version, "annotations": annotations},
            "status": merge_patches.difference(current.status, status),
        }
    )
    return _current(client.patch(path, body, timeout=_TIMEOUT), path)


def changed(annotations: Mapping[str, str | None], current: CurrentObject) -> dict[str, str | None]:
    """The annotations that the object has not as given."""
    return {key: value for key, value in annotations.items() if current.annotations.get(key) != value}


def completed(
    status: Mapping[str, Any],
    current: CurrentObject,
    *,
    now: str,
    generation: bool = True,
    stamped: Iterable[str] = (),
) -> Json:
    """The status with ``observedGeneration``, if ``generation``, and each condition's ``lastTransitionTime``.

    A condition keeps its time while its ``status`` stays, as metav1.Condition defines it; a ``stamped`` field
    keeps the time that the object has there. Fields without a value are left out, as in all objects of the
    API. ``now``: RFC 3339, whole seconds.
    """
    given = _without_nulls(status)
    former = {one.get("type"): one for one in _items(current.status.get("conditions"))}
    conditions = []
    for one in _items(given.get("conditions")):
        known = former.get(one.get("type"), {})
        lasting = known.get("status") == one.get("status")
        since = known.get("lastTransitionTime") if lasting else None
        conditions.append({**one, "lastTransitionTime": since or now})
    return {
        **given,
        **({"conditions": conditions} if "conditions" in given else {}),
        **{name: current.status.get(name) or now for name in stamped},
        **({"observedGeneration": current.generation} if generation else {}),
    }


def _current(body: bytes, path: str) -> CurrentObject:
    try:
        found = msgspec.json.decode(body)
        metadata = found["metadata"]
        status, annotations = found.get("status"), metadata.get("annotations")
        return CurrentObject(
            str(metadata["resourceVersion"]),
            int(metadata.get("generation") or 0),
            status if isinstance(status, dict) else {},
            body,
            annotations if isinstance(annotations, dict) else {},
        )
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as problem:
        raise errors.Undecodable("object", path, str(problem)) from problem


def _items(value: object) -> list[Json]:
    """The objects of a list; empty for anything else."""
    found = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return [one for one in found if isinstance(one, dict)]


def _without_nulls(value: Mapping[str, Any]) -> Json:
    kept: Json = msgspec.to_builtins({key: inner for key, inner in value.items() if inner is not None})
    return {key: _without_nulls(inner) if isinstance(inner, dict) else inner for key, inner in kept.items()}
