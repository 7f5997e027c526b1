"""The fields of a WorkloadPolicy's specification, each with its limits and the error of a wrong value."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, NoReturn

import marshmallow
from marshmallow import fields, validate

from app.domain import selectors

_EXPRESSIONS = 64
"""Maximum labels, and maximum expressions, of a selector, as in the custom resource definition."""
_VALUES = 256
"""Maximum values of a requirement, as in the custom resource definition."""

_LABEL_KEY = re.compile(selectors.KEY)
_LABEL_VALUE = re.compile(selectors.VALUE)

_ONE_OF = "must be one of {choices}, not {input!r}"
_NEEDED: dict[str, str | list[Any] | dict[Any, Any]] = {"required": "is missing", "null": "is missing"}


def _few_enough(items: Sized | None, most: int) -> None:
    if items is not None and len(items) > most:
        raise marshmallow.ValidationError(f"has {len(items)} entries; at most {most} are allowed")


def _label_key(key: str) -> None:
    if not key:
        raise marshmallow.ValidationError("is empty")
    if len(key) > selectors.MAX_KEY:
        raise marshmallow.ValidationError(f"is longer than {selectors.MAX_KEY} characters")
    if not _LABEL_KEY.fullmatch(key):
        raise marshmallow.ValidationError(f"must be the key of a label, not {key!r}")


def _label_value(value: str) -> None:
    if len(value) > selectors.MAX_VALUE:
        raise marshmallow.ValidationError(f"is longer than {selectors.MAX_VALUE} characters")
    if not _LABEL_VALUE.fullmatch(value):
        raise marshmallow.ValidationError(f"must be the value of a label, not {value!r}")


def _label_keys(keys: Iterable[str]) -> None:
    for key in keys:
        try:
            _label_key(key)
        except marshmallow.ValidationError as refused:
            raise marshmallow.ValidationError(f"has a key that {refused.messages[0]}") from refused


class _Lax(marshmallow.Schema):
    class Meta:
        unknown = marshmallow.EXCLUDE


class _Requirement(_Lax):
    key = fields.String(required=True, validate=_label_key, error_messages=_NEEDED)
    operator = fields.String(
        required=True, validate=validate.OneOf(selectors.OPERATORS, error=_ONE_OF), error_messages=_NEEDED
    )
    values = fields.List(
        fields.String(validate=_label_value),
        allow_none=True,
        load_default=list,
        validate=lambda values: _few_enough(values, _VALUES),
    )

    @marshmallow.validates_schema
    def _values_fit(self, data: dict[str, Any], **_: object) -> None:
        if problem := selectors.values_problem(data["operator"], data["values"] or ()):
            raise marshmallow.ValidationError(problem, "values")


class _Selector(_Lax):
    matchLabels = fields.Dict(
        fields.String(),
        fields.String(validate=_label_value),
        allow_none=True,
        load_default=dict,
        validate=[_label_keys, lambda labels: _few_enough(labels, _EXPRESSIONS)],
    )
    matchExpressions = fields.List(
        fields.Nested(_Requirement),
        allow_none=True,
        load_default=list,
        validate=lambda expressions: _few_enough(expressions, _EXPRESSIONS),
    )


class _Allocation(_Lax):
    name = fields.String(
        required=True,
        validate=[validate.Length(min=1, error="is empty"), _label_value],
        error_messages=_NEEDED,
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
    topologyKey = fields.String(required=True, validate=_label_key, error_messages=_NEEDED)
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


def load(spec: dict[str, Any], partial: Sequence[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The valid part of a specification, and the errors of the rest; those in ``partial`` are optional."""
    try:
        return _SCHEMA.load(spec, partial=partial), ()
    except marshmallow.ValidationError as refused:
        valid = refused.valid_data if isinstance(refused.valid_data, dict) else {}
        return valid, tuple(_sentences("spec", refused.messages))


def _sentences(path: str, messages: object) -> Iterator[str]:
    """``{"allocationPolicy": {0: {"replicas": ["..."]}}}`` -> ``spec.allocationPolicy[0].replicas ...``."""
    if isinstance(messages, dict):
        for key, inner in messages.items():
            below = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"
            # The errors of a label are those of its value.
            whole = key == "_schema" or (key == "value" and isinstance(inner, list))
            yield from _sentences(path if whole else below, inner)
    elif isinstance(messages, list):
        for message in messages:
            yield f"{path} {_lowered(str(message))}"


def _lowered(message: str) -> str:
    """Rewrites a message of marshmallow, such as ``Not a valid string.``, to follow a path."""
    return f"is {message[0].lower()}{message[1:-1]}" if message.startswith("Not ") else message
