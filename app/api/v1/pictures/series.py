"""Step charts: how numbers of the cluster changed over a window."""

import re

import flask
from marshmallow import Schema, fields, validate

from app.api import errors
from app.api.introspection import blueprints, pages, queries, schemas, services
from app.api.v1.pictures import answers, walks
from app.api.v1.questions import bodies
from app.verbs.pictures import steps
from app.verbs.questions import question_schema

routes = blueprints.create("series", "/apis/v1", "Numbers over time.")
MOST_MARKS = 100
MOST_EVENTS = 50_000
"""Every event of the window is folded by itself, so that no value between two points is missed."""
_USUAL_WINDOW = 5000
_SECONDS = question_schema.MAX_BUDGET_SECONDS
"""Seconds of work at most: as long as a question may hold up the others."""
_OF = re.compile(rf"^({'|'.join(steps.NUMBERS)}|[a-z]{{1,40}}:[^\s]{{1,507}}){queries.END}")


class SeriesQuery(queries.Parameters):
    """What to count, and where."""

    of = fields.String(
        required=True,
        validate=validate.Regexp(_OF, error=f"must be {', '.join(steps.NUMBERS)} or KIND:NAMESPACE/NAME"),
        metadata={
            "description": "waiting, inFlight, pods, nodes, quota:NAMESPACE/NAME, or of a plugin, such as"
            " gang:NAMESPACE/NAME."
        },
    )
    from_ = queries.at("The first moment of the window, instead of 5,000 events before", data_key="from")
    to = queries.at("The last moment of the window, instead of now")
    points = fields.Integer(
        load_default=500,
        validate=validate.Range(4, 2000),
        metadata={"description": "Maximum number of points of a line, about."},
    )


class Line(Schema):
    """One line of a chart."""

    name = schemas.text("What it counts.")
    points = schemas.anything(
        "[offset, milliseconds since 1970, value or null]: the value from that event on; the time is 0 before"
        " the first event of the log, or if it is no longer kept. Of each stretch the first, last, least and"
        " greatest are kept."
    )


class Series(Schema):
    """The lines of a chart."""

    of = schemas.text("What was asked for.")
    lines = schemas.nested(Line, "The lines.", many=True)
    marks = schemas.anything(
        "[offset, milliseconds since 1970, text]: the latest changes of the object, such as of its quotas, at"
        f" most {MOST_MARKS}, oldest first."
    )
    metadata = schemas.nested(answers.WindowShown, "The window.")


@blueprints.get(routes, "/series", Series, query=SeriesQuery, also_status=(429,), tagged=True)
def series(query: pages.Query) -> flask.Response:
    """How a number changed, event by event."""
    lines = _lines(str(query["of"]))
    found = answers.window(query, usual=_USUAL_WINDOW, most=MOST_EVENTS)
    return answers.windowed(found, lambda: _body(found, str(query["of"]), lines, int(query["points"])))


def _lines(of: str) -> steps.Lines:
    """What is counted. Raises Problem 400."""
    kind, _, name = of.partition(":")
    if kind == "quota":
        return steps.Lines(steps.quota(name, answers.counts_of))
    kinds = services.current().registry.followed
    if not name:
        return steps.Lines(steps.NUMBERS[kind])
    found = steps.followed(kinds, kind, name)
    if found is None:
        known = ", ".join(("quota", *(one.kind for one in kinds)))
        raise errors.bad(f"of: there is no kind {kind}; known: {known}")
    return found


def _too_long(found: answers.Window) -> errors.Problem:
    number = found.last - found.first
    message = f"from: {number} events take longer than {_SECONDS:.0f} s: choose a shorter window"
    return errors.Problem(400, "TooMuch", message)


def _body(found: answers.Window, of: str, lines: steps.Lines, points: int) -> pages.Body:
    changes = steps.Changes(of.partition(":")[2])
    budget: bodies.Budget | None = None
    for snapshot, at_ms, event in walks.steps(found.first, found.last):
        # Not before the first event: the state there may have to be folded from the archive.
        budget = budget or bodies.Budget(_SECONDS)
        # The numbers of a quota over thousands of nodes take milliseconds. A part of the answer would be
        # kept, and has to follow from the position: none is given.
        if not budget.running():
            raise _too_long(found)
        lines.add(snapshot, at_ms, event)
        changes.add(snapshot, at_ms)
    return {
        "of": of,
        "lines": [
            {"name": line, "points": steps.thinned(held, found.first, found.last, points)}
            for line, held in lines.points.items()
        ],
        "marks": changes.marks[-MOST_MARKS:],
        "metadata": answers.ranged(found),
    }
