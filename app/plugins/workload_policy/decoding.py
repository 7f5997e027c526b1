"""Decodes and validates WorkloadPolicies.

The custom resource definition of a cluster may be loose, so every field is validated here. An invalid policy
is kept and shown with its errors, as far as it is readable; its pods are refused with the reason, never
scheduled silently.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import marshmallow
import msgspec
from marshmallow import fields, validate

from app.domain import model, selectors
from app.framework import manifests
from app.plugins.workload_policy import policy_model

STRICT_DOMAINS = "topolog.io/strict-domains"
"""Annotation: ``"true"`` makes a Preferred policy refuse unlisted and unlabelled nodes, as Kosmos does."""

ENTRIES = 1_000
"""Maximum entries of spec.allocationPolicy, as in the custom resource definition."""
_SELECTOR = 16 * 1024
"""Maximum bytes of the JSON of a selector."""
_EXPRESSIONS = 64
"""Maximum requirements of a selector, as in the custom resource definition."""
_VALUES = 256
"""Maximum values of a requirement, as in the custom resource definition."""
_REASON = 512
"""Maximum characters of an error; the rest is cut."""
_ERRORS = 10
"""Maximum errors kept per policy; each of its entries may have one."""
_KEY = 317
"""Maximum characters of a label key."""
_VALUE = 63
"""Maximum characters of a label value, and so of a domain's name."""

_LONG = "is longer than {max} characters"
_ONE_OF = "must be one of {choices}, not {input!r}"
_NEEDED: dict[str, str | list[Any] | dict[Any, Any]] = {"required": "is missing", "null": "is missing"}


def _few_enough(items: Sequence[object] | None, most: int) -> None:
    if items is not None and len(items) > most:
        raise marshmallow.ValidationError(f"has {len(items)} entries; at most {most} are allowed")


class _Lax(marshmallow.Schema):
    class Meta:
        unknown = marshmallow.EXCLUDE


class _Requirement(_Lax):
    key = fields.String(
        required=True, validate=validate.Length(min=1, error="is empty"), error_messages=_NEEDED
    )
    operator = fields.String(
        required=True, validate=validate.OneOf(selectors.OPERATORS, error=_ONE_OF), error_messages=_NEEDED
    )
    values = fields.List(
        fields.String(),
        allow_none=True,
        load_default=list,
        validate=lambda values: _few_enough(values, _VALUES),
    )

    @marshmallow.validates_schema
    def _values_fit(self, data: dict[str, Any], **_: object) -> None:
        lists = data["operator"] in ("In", "NotIn")
        if lists and not data["values"]:
            raise marshmallow.ValidationError(f"must not be empty with {data['operator']}", "values")
        if not lists and data["values"]:
            raise marshmallow.ValidationError(f"must be empty with {data['operator']}", "values")


class _Selector(_Lax):
    matchLabels = fields.Dict(fields.String(), fields.String(), allow_none=True, load_default=dict)
    matchExpressions = fields.List(
        fields.Nested(_Requirement),
        allow_none=True,
        load_default=list,
        validate=lambda expressions: _few_enough(expressions, _EXPRESSIONS),
    )


class _Allocation(_Lax):
    name = fields.String(
        required=True, validate=validate.Length(max=_VALUE, error=_LONG), error_messages=_NEEDED
    )
    replicas = fields.Integer(
        required=True,
        strict=True,
        validate=validate.Range(0, 2**31 - 1, error="must be between {min} and {max}, not {input}"),
        error_messages={**_NEEDED, "invalid": "must be a whole number"},
    )

    @marshmallow.pre_load
    def _no_booleans(self, data: object, **_: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("replicas"), bool):
            raise marshmallow.ValidationError("must be a whole number", "replicas")
        return data


class _Spec(_Lax):
    topologyKey = fields.String(
        required=True,
        validate=[validate.Length(min=1, error="is empty"), validate.Length(max=_KEY, error=_LONG)],
        error_messages=_NEEDED,
    )
    labelSelector = fields.Nested(_Selector, required=True, error_messages=_NEEDED)
    allocationPolicy = fields.List(
        fields.Nested(_Allocation),
        required=True,
        validate=validate.Length(min=1, error="is empty"),
        error_messages=_NEEDED,
    )
    allocationType = fields.String(
        load_default="Preferred", validate=validate.OneOf(("Preferred", "Required"), error=_ONE_OF)
    )
    allocationMethod = fields.String(
        load_default="Balance", validate=validate.OneOf(("Balance", "Fill"), error=_ONE_OF)
    )

    @marshmallow.validates("allocationPolicy")
    def _names_differ(self, value: list[dict[str, Any]], **_: object) -> None:
        times = Counter(one["name"] for one in value if "name" in one)
        twice = sorted(name for name, count in times.items() if count > 1)
        if twice:
            raise marshmallow.ValidationError(f"names {', '.join(twice)} twice")

    def handle_error(self, error: marshmallow.ValidationError, data: object, **_: object) -> NoReturn:
        raise error


_SCHEMA = _Spec()


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
    try:
        return _SCHEMA.load(readable, partial=tuple(excess)), tuple(excess.values())
    except marshmallow.ValidationError as refused:
        errors = (*excess.values(), *_sentences("spec", refused.messages))
        return _mapping(refused.valid_data), tuple(_few(errors))


def _excess(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields that exceed a limit, each with its error; they are not read further."""
    allocations, selector = spec.get("allocationPolicy"), spec.get("labelSelector")
    if isinstance(allocations, list) and len(allocations) > ENTRIES:
        sentence = f"spec.allocationPolicy has {len(allocations)} entries; at most {ENTRIES} are allowed"
        yield "allocationPolicy", sentence
    if (size := len(msgspec.json.encode(selector))) > _SELECTOR:
        yield "labelSelector", f"spec.labelSelector takes {size} bytes; at most {_SELECTOR} are allowed"


def _few(errors: Sequence[str]) -> Iterator[str]:
    """The first errors, shortened, and the number of the others."""
    for error in errors[:_ERRORS]:
        yield manifests.shortened(error, _REASON)
    if len(errors) > _ERRORS:
        yield f"spec has {len(errors) - _ERRORS} more errors"


def _sentences(path: str, messages: object) -> Iterator[str]:
    """``{"allocationPolicy": {0: {"replicas": ["..."]}}}`` -> ``spec.allocationPolicy[0].replicas ...``."""
    if isinstance(messages, dict):
        for key, inner in messages.items():
            below = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"
            yield from _sentences(path if key == "_schema" else below, inner)
    elif isinstance(messages, list):
        for message in messages:
            yield f"{path} {_lowered(str(message))}"


def _lowered(message: str) -> str:
    """Rewrites a message of marshmallow, such as ``Not a valid string.``, to follow a path."""
    return f"is {message[0].lower()}{message[1:-1]}" if message.startswith("Not ") else message


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
