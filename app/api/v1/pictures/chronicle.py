"""The time axis of a window: events by type, marks, and stretches that were not watched."""

import flask
from marshmallow import Schema, fields, validate

from app.api.introspection import blueprints, heavy, pages, queries, schemas, services, times
from app.api.v1.pictures import answers, walks
from app.verbs.pictures import chronicles

routes = blueprints.create("moments", "/apis/v1", "The time axis of the log.")
_USUAL_WINDOW = 20_000


class ChronicleQuery(queries.Parameters):
    """The window, and how many buckets."""

    from_ = queries.at("The first moment of the window, instead of 20,000 events before", data_key="from")
    to = queries.at("The last moment of the window, instead of now")
    buckets = fields.Integer(
        load_default=400, validate=validate.Range(1, 1000), metadata={"description": "Number of buckets."}
    )


class MomentBucket(Schema):
    """A run of events."""

    first = schemas.number("Its first offset.")
    last = schemas.number("Its last offset.")
    from_ = schemas.text("When its first event was appended (RFC 3339).", data_key="from")
    to = schemas.text("When its last event was appended.")
    types = schemas.counts("Type of event -> number.")
    marks = schemas.counts("Kind of mark -> number.")


class MomentMark(Schema):
    """An event worth a mark."""

    offset = schemas.number("Offset.")
    at = schemas.text("When it was appended (RFC 3339).")
    kind = schemas.text("change, plan, flag, shadow, repair, store or configuration.")
    text = schemas.text("What happened.")


class MomentGap(Schema):
    """A stretch in which changes were not watched."""

    from_ = fields.Integer(
        required=True,
        data_key="from",
        metadata={"description": "The offset of the last event before it."},
    )
    to = schemas.number("The offset of the event that ends it.")
    reason = schemas.text("Why.")


class MomentIncarnation(Schema):
    """An incarnation that began in the window, because the store had lost events."""

    offset = schemas.number("The offset of the event that began it.")
    at = schemas.text("When that was appended (RFC 3339).")
    incarnation = schemas.text("The incarnation.")
    former = schemas.text("The incarnation that ended.")
    lostFrom = schemas.number("The first lost offset of the incarnation that ended.")
    lostTo = schemas.number("The last one that is known; lower than lostFrom if none is.")
    reason = schemas.text("Why it began.")


class Chronicle(Schema):
    """A window of the log."""

    buckets = schemas.nested(MomentBucket, "Runs of equal numbers of events, oldest first.", many=True)
    marks = schemas.nested(MomentMark, "The latest 500 marks, oldest first.", many=True)
    moreMarks = schemas.number("Older marks, which only the buckets count.")
    gaps = schemas.nested(MomentGap, "Stretches that were not watched.", many=True)
    incarnations = schemas.nested(
        MomentIncarnation, "Incarnations that began in it, oldest first.", many=True
    )
    metadata = schemas.nested(answers.WindowShown, "The window.")


@blueprints.get(routes, "/moments", Chronicle, query=ChronicleQuery, also_status=(429,), tagged=True)
def chronicle(query: pages.Query) -> flask.Response:
    """Events by type over a window, changes worth a mark, and what was not watched."""
    found = answers.window(query, usual=_USUAL_WINDOW)
    return answers.windowed(found, lambda: _body(found, int(query["buckets"])))


def _body(found: answers.Window, buckets: int) -> pages.Body:
    start = services.current().histories.at(found.first, attended=heavy.attended())
    made = chronicles.Chronicle(found.first + 1, found.last, buckets, start.unlisted)
    for run in walks.entries(found.first + 1, found.last):
        made.add((chronicles.ChronicleEntry(*entry) for entry in run), start.schema.names)
    made.finish(found.last)
    return {
        "buckets": [
            {
                "first": one.first,
                "last": one.last,
                "from": times.rfc3339(one.first_ms / 1000),
                "to": times.rfc3339(one.last_ms / 1000),
                "types": one.types,
                "marks": one.marks,
            }
            for one in made.buckets
        ],
        "marks": [
            {"offset": one.offset, "at": times.rfc3339(one.at_ms / 1000), "kind": one.kind, "text": one.text}
            for one in made.marks
        ],
        "moreMarks": made.more_marks,
        "gaps": [{"from": one.first, "to": one.last, "reason": one.reason} for one in made.gaps],
        "incarnations": [_incarnation(one) for one in made.walls],
        "metadata": answers.ranged(found),
    }


def _incarnation(wall: chronicles.Wall) -> pages.Body:
    return {
        "offset": wall.offset,
        "at": times.rfc3339(wall.at_ms / 1000),
        "incarnation": wall.event.incarnation,
        "former": wall.event.from_incarnation,
        "lostFrom": wall.event.lost_from,
        "lostTo": wall.event.lost_to,
        "reason": wall.event.reason,
    }
