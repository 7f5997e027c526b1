"""The differences between two moments of the log, or two situations."""

from collections import Counter

from marshmallow import Schema, fields, validate

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, schemas, services
from app.api.v1.pictures import maps
from app.api.v1.questions import bodies
from app.domain import snapshots
from app.verbs.pictures import contrasts, layouts
from app.verbs.questions import question_schema, situations, snapshot_diff

routes = blueprints.create("diff", "/apis/v1", "The differences between two moments.")
MAX_ROWS = 1000
_MOST_EVENTS, _READ = 200_000, 5_000


class Diff(Schema):
    """Two moments, and what to compare."""

    from_ = queries.at("The first moment, instead of now", data_key="from")
    to = queries.at("The second moment, instead of now")
    only_ = fields.String(
        data_key="only",
        validate=validate.Length(1, 100),
        metadata={"description": f"Some of {', '.join(snapshot_diff.SECTIONS)}, comma-separated."},
    )
    limit = fields.Integer(
        load_default=pages.DEFAULT,
        validate=validate.Range(1, MAX_ROWS),
        metadata={"description": "Maximum number of rows of each section."},
    )

    namespace = fields.String(
        load_default="",
        validate=validate.Length(0, 63),
        metadata={"description": "Only what is in this namespace, which no node is."},
    )
    measure = fields.String(
        validate=validate.Regexp(question_schema.MEASURE, error="must be pods or resource:NAME"),
        metadata={"description": "pods or resource:NAME: also the map of the nodes on which it differs."},
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
    rows = schemas.nested(Row, "The first, by name; at most ``limit``, and 512 KiB.", many=True)
    more = schemas.number("Those that are not in rows.")


class Contrast(Schema):
    """The map of the nodes of both."""

    layout = schemas.text("The digest of names and domains.")
    color = schemas.text("What is compared.")
    levels = schemas.texts("The label keys of the domains, from the widest to the narrowest.")
    nodes = schemas.texts("Names in the order of values.")
    domains = schemas.anything("[value, parent index or -1, first node, nodes] in preorder.")
    classes = schemas.nested(maps.MapClass, "The same, less, more, gone, new.", many=True)
    values = schemas.text("One letter for each node, in order.")


class Differences(Schema):
    """What differs between two moments."""

    from_ = schemas.text("The first position, INCARNATION/OFFSET.", data_key="from")
    to = schemas.text("The second position.")
    events = schemas.counts("Type of event -> how many lie between the two positions.")
    moreEvents = schemas.number("Events between them that were not counted, of more than 200,000.")
    same = schemas.truth("Whether nothing differs in the compared sections.")
    sections = fields.Dict(
        keys=fields.String(),
        values=fields.Nested(Section),
        required=True,
        metadata={"description": "Section -> differences."},
    )
    map = schemas.nested(Contrast, "With ``measure``: the nodes that have more or less, or null.", null=True)


@blueprints.get(routes, "/diff", Differences, query=Diff, also_status=(429,))
def diff(query: pages.Query) -> pages.Body:
    """What differs between two moments: nodes, pods, objects, counts, placements, pending pods."""
    only = tuple(query["only_"].split(",")) if "only_" in query else snapshot_diff.SECTIONS
    unknown = [name for name in only if name not in snapshot_diff.SECTIONS]
    if unknown:
        allowed = ", ".join(snapshot_diff.SECTIONS)
        raise errors.bad(f"only: there is no section {unknown[0][:80]!r}; known: {allowed}")
    with bodies.answering():
        one = moments.take(query.get("from_") or moments.NOW, "from").snapshot
        other = moments.take(query.get("to") or moments.NOW, "to").snapshot
        found = snapshot_diff.compare(
            one, other, only=only, limit=int(query["limit"]), namespace=query["namespace"]
        )
        return _differences(one, other, found, query.get("measure", ""))


class SituationDifferences(Differences):
    """What differs between two situations."""

    situations = schemas.nested(bodies.SituationShown, "Both situations, resolved.", many=True)


@blueprints.ask(routes, "/diff", SituationDifferences, question="Diff")
def compare(_: pages.Query) -> pages.Body:
    """What differs between two situations, each a moment with overrides.

    Situations of the same ``at`` are of the same moment, also if it is left out.
    """
    question = bodies.read(question_schema.Diff)
    with bodies.answering():
        first, second = (
            bodies.hypothesis(asked, path) for asked, path in ((question.from_, "from"), (question.to, "to"))
        )
        start = bodies.moment(question.from_, "from")
        end = start if question.to.at == question.from_.at else bodies.moment(question.to, "to")
        before = situations.resolve(start.snapshot, first)
        after = situations.resolve(end.snapshot, second)
        found = snapshot_diff.compare(
            before.snapshot,
            after.snapshot,
            only=tuple(question.only) or snapshot_diff.SECTIONS,
            limit=question.limit,
            namespace=question.namespace,
        )
        return {
            **_differences(before.snapshot, after.snapshot, found, question.measure),
            "situations": [bodies.shown(before), bodies.shown(after)],
        }


def _differences(
    one: snapshots.Snapshot,
    other: snapshots.Snapshot,
    found: dict[str, snapshot_diff.Section],
    measure: str,
) -> pages.Body:
    counted, more = _events(*sorted((one.offset, other.offset)))
    return {
        "from_": str(one.position),
        "to": str(other.position),
        "events": counted,
        "moreEvents": more,
        "same": not any(section.began or section.ended or section.changed for section in found.values()),
        "sections": {name: _section(section) for name, section in found.items()},
        "map": _map(one, other, measure) if measure else None,
    }


def _map(one: snapshots.Snapshot, other: snapshots.Snapshot, measure: str) -> pages.Body:
    """A node is where its later labels place it."""
    labels = {name: node.labels for state in (one, other) for name, node in state.nodes.items()}
    maps.bounded(len(labels))
    arranged = layouts.arranged(labels, maps.levels(None, other))
    values = contrasts.letters(one, other, arranged.names, contrasts.measure_of(measure))
    return {
        **maps.described(arranged, None),
        "color": measure,
        "classes": [
            {"letter": letter, "label": label, "look": "", "count": values.count(letter)}
            for letter, label in zip(contrasts.LETTERS, contrasts.CLASSES, strict=True)
        ],
        "values": values,
    }


def _events(first: int, last: int) -> tuple[dict[str, int], int]:
    """The events behind ``first`` up to ``last`` by type, and how many were not counted."""
    numbers: Counter[str] = Counter()
    at, most = first, min(last, first + _MOST_EVENTS)
    while at < most:
        entries = services.current().histories.entries(at + 1, most, limit=_READ)
        if not entries:
            break
        numbers.update(type(entry.event).__name__ for entry in entries)
        at = entries[-1].offset
    return dict(sorted(numbers.items())), last - at


def _section(section: snapshot_diff.Section) -> pages.Body:
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
