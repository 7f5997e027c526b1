"""Decodes and validates WorkloadPolicies.

The custom resource definition of a cluster may be loose, so every field is validated here. An invalid policy
is kept and shown with its errors, as far as it is readable; its pods are refused with the reason, never
scheduled silently.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from app.domain import model
from app.framework import manifests
from app.plugins.workload_policy import policy_model

STRICT_DOMAINS = "topolog.io/strict-domains"
"""Annotation: ``"true"`` makes a Preferred policy refuse unlisted and unlabelled nodes, as Kosmos does."""

ENTRIES = 1_000
"""Maximum entries of spec.allocationPolicy, as in the custom resource definition."""
_SELECTOR = 16 * 1024
"""Maximum bytes of the JSON of a selector."""
_REASON = 512
"""Maximum characters of an error; the rest is cut."""
_ERRORS = 10
"""Maximum errors kept per policy; each of its entries may have one."""


class _Manifest(manifests.ApiStruct):
    metadata: manifests.Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")


_manifest = msgspec.json.Decoder(_Manifest)


def policy(raw: bytes | msgspec.Raw) -> policy_model.WorkloadPolicy:
    """The policy of its JSON; if it is invalid, ``errors`` name each field and the reason.

    Raises ValueError only if the policy cannot be identified.
    """
    seen = _manifest.decode(raw)
    metadata = seen.metadata
    spec, errors = _validated(seen.spec)
    selector = _mapping(spec.get("labelSelector"))
    annotations = metadata.annotations or {}
    return policy_model.WorkloadPolicy(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        topology_key=_string(spec.get("topologyKey")),
        selector=model.Selector(
            labels=_mapping(selector.get("matchLabels")),
            expressions=tuple(_requirements(selector.get("matchExpressions"))),
        ),
        allocations=tuple(_allocations(spec.get("allocationPolicy"))),
        type=_string(spec.get("allocationType")) or "Preferred",
        method=_string(spec.get("allocationMethod")) or "Balance",
        strict_domains=annotations.get(STRICT_DOMAINS) == "true",
        errors=errors,
        created=metadata.creation_timestamp or "",
    )


def check(found: policy_model.WorkloadPolicy) -> tuple[str, ...]:
    """What a specification with these fields would be refused for."""
    selector = {
        "matchLabels": found.selector.labels,
        "matchExpressions": msgspec.to_builtins(found.selector.expressions),
    }
    spec = {
        "topologyKey": found.topology_key,
        "labelSelector": selector,
        "allocationPolicy": msgspec.to_builtins(found.allocations),
        "allocationType": found.type,
        "allocationMethod": found.method,
    }
    return _validated(msgspec.Raw(msgspec.json.encode(spec)))[1]


def check_allocations(
    found: policy_model.WorkloadPolicy, changed: Iterable[policy_model.Allocation]
) -> tuple[str, ...]:
    """The same for a policy of which only these allocations are not known to be valid."""
    if len(found.allocations) > ENTRIES:
        return (_too_many(len(found.allocations)),)
    return check(msgspec.structs.replace(found, allocations=tuple(changed)))


def _validated(raw: msgspec.Raw) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The valid part of the specification, and the errors of the rest."""
    spec = msgspec.json.decode(raw)
    if spec is None:
        return {}, ("spec is missing",)
    if not isinstance(spec, dict):
        return {}, ("spec must be an object",)
    # A null means absent, as everywhere in Kubernetes.
    given = {key: value for key, value in spec.items() if value is not None}
    excess = dict(_excess(given))
    readable = {key: value for key, value in given.items() if key not in excess}
    # Imported here because every process imports the plugin, but few decode policies, and marshmallow is slow
    # to import.
    from app.plugins.workload_policy.decoding import spec_schema

    valid, errors = spec_schema.load(readable, partial=tuple(excess))
    return valid, tuple(_few((*excess.values(), *errors)))


def _excess(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields that exceed a limit, each with its error; they are not read further."""
    allocations, selector = spec.get("allocationPolicy"), spec.get("labelSelector")
    if isinstance(allocations, list) and len(allocations) > ENTRIES:
        yield "allocationPolicy", _too_many(len(allocations))
    if (size := len(msgspec.json.encode(selector))) > _SELECTOR:
        yield "labelSelector", f"spec.labelSelector takes {size} bytes; at most {_SELECTOR} are allowed"


def _too_many(entries: int) -> str:
    return f"spec.allocationPolicy has {entries} entries; at most {ENTRIES} are allowed"


def _few(errors: Sequence[str]) -> Iterator[str]:
    """The first errors, shortened, and the number of the others."""
    for error in errors[:_ERRORS]:
        yield manifests.shortened(error, _REASON)
    if len(errors) > _ERRORS:
        yield f"spec has {len(errors) - _ERRORS} more errors"


def _allocations(found: object) -> Iterator[policy_model.Allocation]:
    for one in found if isinstance(found, list) else ():
        name, replicas = _mapping(one).get("name"), _mapping(one).get("replicas")
        if isinstance(name, str) and isinstance(replicas, int):
            yield policy_model.Allocation(name, replicas)


def _requirements(found: object) -> Iterator[model.Requirement]:
    for one in found if isinstance(found, list) else ():
        part = _mapping(one)
        values = part.get("values")
        yield model.Requirement(
            key=_string(part.get("key")),
            operator=_string(part.get("operator")),
            values=tuple(values) if isinstance(values, list) else (),
        )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
