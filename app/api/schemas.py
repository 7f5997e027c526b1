"""What every answer has in common: the error, the list, and small nouns of many views."""

from marshmallow import Schema, fields


class Problem(Schema):
    """Every error."""

    message = fields.String(required=True, metadata={"description": "What is wrong, where, and what to do."})
    reasonCode = fields.String(required=True, metadata={"description": "One word for programs: NotFound."})


class ListMetadata(Schema):
    """What a list says about itself."""

    position = fields.String(required=True, metadata={"description": "INCARNATION/OFFSET shown."})
    asOf = fields.String(required=True, metadata={"description": "When that was the present (RFC 3339)."})
    next_ = fields.String(
        data_key="continue",
        attribute="continue",
        required=True,
        allow_none=True,
        metadata={"description": "Pass it as ?continue= for the next page; null at the end."},
    )
    remaining = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "Items behind this page; null where counting would mean reading all."},
    )


def page_of(item: type[Schema]) -> type[Schema]:
    """The list of an item."""
    return Schema.from_dict(
        {
            "items": fields.List(fields.Nested(item), required=True),
            "metadata": fields.Nested(ListMetadata, required=True),
        },
        name=f"{item.__name__}List",
    )


def text(description: str) -> fields.String:
    """A text that is always there."""
    return fields.String(required=True, metadata={"description": description})


def optional(description: str) -> fields.String:
    """A text or null."""
    return fields.String(required=True, allow_none=True, metadata={"description": description})


def number(description: str) -> fields.Integer:
    """A whole number."""
    return fields.Integer(required=True, metadata={"description": description})


def real(description: str) -> fields.Float:
    """A number."""
    return fields.Float(required=True, metadata={"description": description})


def truth(description: str) -> fields.Boolean:
    """True or false."""
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


def anything(description: str) -> fields.Raw:
    """Any JSON value."""
    return fields.Raw(required=True, allow_none=True, metadata={"description": description})


class PodReference(Schema):
    """Which pod."""

    namespace = text("Namespace.")
    name = text("Name.")
    uid = text("UID.")
