"""The differences between two moments of the log."""

from marshmallow import Schema, fields, validate

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, schemas
from app.api.v1.questions import bodies
from app.verbs.questions import comparing

routes = blueprints.create("diff", "/apis/v1", "The differences between two moments.")
MAX_ROWS = 1000


class Diff(Schema):
    """Two moments, and what to compare."""

    from_ = queries.at("The first moment, instead of now", data_key="from")
    to = queries.at("The second moment, instead of now")
    only_ = fields.String(
        data_key="only",
        validate=validate.Length(1, 100),
        metadata={"description": f"Some of {', '.join(comparing.SECTIONS)}, comma-separated."},
    )
    limit = fields.Integer(
        load_default=pages.DEFAULT,
        validate=validate.Range(1, MAX_ROWS),
        metadata={"description": "Maximum number of rows of each section."},
    )


class FieldChange(Schema):
    """A field that differs."""

    field = schemas.text("The field, as the log records it.")
    before = schemas.anything("The value at ``from``; null if it has its default value.")
    after = schemas.anything("The value at ``to``.")


class Row(Schema):
    """An object that differs."""

    name = schemas.text("The node, NAMESPACE/POD, KIND:NAMESPACE/NAME, or the count.")
    change = schemas.text("began, ended or changed.")
    fields_ = fields.List(
        fields.Nested(FieldChange),
        required=True,
        data_key="fields",
        attribute="fields",
        metadata={"description": "The fields that differ."},
    )


class Section(Schema):
    """The differences of one kind."""

    began = schemas.number("How many exist at ``to`` only.")
    ended = schemas.number("How many exist at ``from`` only.")
    changed = schemas.number("How many differ.")
    rows = schemas.nested(Row, "The first, by name; at most ``limit``.", many=True)
    more = schemas.number("Those that are not in rows.")


class Differences(Schema):
    """What differs between two moments."""

    from_ = schemas.text("The first position, INCARNATION/OFFSET.", data_key="from")
    to = schemas.text("The second position.")
    same = schemas.truth("Whether nothing differs in the compared sections.")
    sections = fields.Dict(
        keys=fields.String(),
        values=fields.Nested(Section),
        required=True,
        metadata={"description": "Section -> differences."},
    )


@blueprints.get(routes, "/diff", Differences, query=Diff, also_status=(429,))
def diff(query: pages.Query) -> pages.Body:
    """What differs between two moments: nodes, pods, objects, counts, placements, pending pods."""
    only = tuple(query["only_"].split(",")) if "only_" in query else comparing.SECTIONS
    unknown = [name for name in only if name not in comparing.SECTIONS]
    if unknown:
        allowed = ", ".join(comparing.SECTIONS)
        raise errors.bad(f"only: there is no section {unknown[0][:80]!r}; known: {allowed}")
    with bodies.answering():
        one = moments.take(query.get("from_") or moments.NOW).snapshot
        other = moments.take(query.get("to") or moments.NOW).snapshot
        found = comparing.compare(one, other, only=only, limit=int(query["limit"]))
    return {
        "from_": str(one.position),
        "to": str(other.position),
        "same": not any(section.rows for section in found.values()),
        "sections": {name: _section(section) for name, section in found.items()},
    }


def _section(section: comparing.Section) -> pages.Body:
    return {
        "began": section.began,
        "ended": section.ended,
        "changed": section.changed,
        "rows": [
            {
                "name": row.name,
                "change": row.change,
                "fields": [
                    {"field": one.field, "before": one.before, "after": one.after} for one in row.fields
                ],
            }
            for row in section.rows
        ],
        "more": section.more,
    }
