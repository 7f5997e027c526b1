"""Schemas that many answers share: the error, list metadata, and typed fields."""

from collections.abc import Mapping, Sequence

import msgspec
from marshmallow import Schema, fields

_REFERENCE = "#/components/schemas/{name}"


class Problem(Schema):
    """An error."""

    message = fields.String(required=True, metadata={"description": "What is wrong, where, and what to do."})
    reasonCode = fields.String(
        required=True, metadata={"description": "The kind of error, such as NotFound."}
    )


class ListMetadata(Schema):
    """Metadata of a list."""

    position = fields.String(
        required=True, metadata={"description": "The position shown, INCARNATION/OFFSET."}
    )
    asOf = fields.String(
        required=True, metadata={"description": "When that position was current (RFC 3339)."}
    )
    next_ = fields.String(
        data_key="continue",
        attribute="continue",
        required=True,
        allow_none=True,
        metadata={"description": "The value of ?continue= for the next page; null on the last one."},
    )
    remaining = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "Items after this page; null where counting would mean reading all."},
    )


def page_of(item: type[Schema]) -> type[Schema]:
    """The schema of a list of items."""
    return Schema.from_dict(
        {
            "items": fields.List(fields.Nested(item), required=True),
            "metadata": fields.Nested(ListMetadata, required=True),
        },
        name=f"{item.__name__}List",
    )


def text(description: str, *, data_key: str | None = None) -> fields.String:
    """A required text; ``data_key``: its name in JSON, if Python reserves it."""
    return fields.String(required=True, data_key=data_key, metadata={"description": description})


def optional(description: str, *, data_key: str | None = None) -> fields.String:
    """A required text or null."""
    return fields.String(
        required=True, allow_none=True, data_key=data_key, metadata={"description": description}
    )


def number(description: str) -> fields.Integer:
    """A required integer."""
    return fields.Integer(required=True, metadata={"description": description})


def real(description: str) -> fields.Float:
    """A required number."""
    return fields.Float(required=True, metadata={"description": description})


def truth(description: str) -> fields.Boolean:
    """A required boolean."""
    return fields.Boolean(required=True, metadata={"description": description})


def texts(description: str) -> fields.List[str]:
    """A list of texts."""
    return fields.List(fields.String(), required=True, metadata={"description": description})


def mapping(description: str) -> fields.Dict:
    """Text to text: labels, quantities."""
    return fields.Dict(
        keys=fields.String(), values=fields.String(), required=True, metadata={"description": description}
    )


def counts(description: str) -> fields.Dict:
    """Text to number."""
    return fields.Dict(
        keys=fields.String(), values=fields.Integer(), required=True, metadata={"description": description}
    )


def nested(
    schema: type[Schema], description: str, *, many: bool = False, null: bool = False
) -> fields.Nested:
    """An object, or a list of them."""
    return fields.Nested(
        schema, many=many, required=True, allow_none=null, metadata={"description": description}
    )


def declared(item: type, description: str) -> fields.Raw:
    """A list of a msgspec.Struct, as JSON; ``components`` has its schema."""
    items = {"$ref": _REFERENCE.format(name=item.__name__)}
    return fields.Raw(required=True, metadata={"type": "array", "items": items, "description": description})


def components(items: Sequence[type]) -> Mapping[str, Mapping[str, object]]:
    """Name -> JSON schema of msgspec.Structs, for the components of the OpenAPI document."""
    _, found = msgspec.json.schema_components(items, ref_template=_REFERENCE)
    return found


def anything(description: str) -> fields.Raw:
    """Any JSON value."""
    return fields.Raw(required=True, allow_none=True, metadata={"description": description})


class PodReference(Schema):
    """A reference to a pod."""

    namespace = text("Namespace.")
    name = text("Name.")
    uid = text("UID.")
