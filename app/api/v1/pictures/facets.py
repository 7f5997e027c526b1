"""Counts what recorded decisions have in common, and what a selected stretch has more of than the rest."""

from collections import Counter
from collections.abc import Iterator

import flask
from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.api.introspection import blueprints, moments, pages, queries, schemas, services, times
from app.api.v1 import decisions
from app.api.v1.pictures import answers
from app.store.decisions import records

routes = blueprints.create("facets", "/apis/v1", "What decisions have in common.")
FACETS = ("verb", "outcome", "plugin", "reason", "object", "namespace", "node")
_MOST_VALUES = 50


class FacetsQuery(queries.Decisions):
    """Which decisions, and which of them are selected."""

    pickedSince = queries.at("The selection begins at this moment")
    pickedUntil = queries.at("The selection ends before this moment, which may be in the future")
    buckets = fields.Integer(
        load_default=60, validate=validate.Range(1, 400), metadata={"description": "Number of buckets."}
    )

    class Meta:
        """No pages."""

        exclude = ("limit", "continue_")

    @validates_schema
    def _timed(self, data: pages.Query, **_: object) -> None:
        for name in ("pickedSince", "pickedUntil"):
            if name in data and data[name].time_ms is None:
                raise ValidationError("must be an RFC 3339 time", name)


class FacetValue(Schema):
    """A value of a facet."""

    value = schemas.text("The value.")
    count = schemas.number("Decisions.")
    picked = schemas.number("Of these, those in the selection.")


class Facet(Schema):
    """The values of one property."""

    name = schemas.text("verb, outcome, plugin, reason, object, namespace or node.")
    values = schemas.nested(
        FacetValue,
        "At most 50: those with the largest difference between the selection and the rest.",
        many=True,
    )
    more = schemas.number("Values that are not in values.")


class DecisionBucket(Schema):
    """The decisions of a stretch of time."""

    from_ = schemas.text("When it begins (RFC 3339).", data_key="from")
    to = schemas.text("When it ends.")
    outcomes = schemas.counts("Outcome -> decisions.")
    p50 = schemas.anything("Median duration in milliseconds; null without decisions.")
    p99 = schemas.anything("99th percentile of the duration in milliseconds; null without decisions.")


class Facets(Schema):
    """What decisions have in common."""

    examined = schemas.number("Decisions counted, the newest 20,000 at most.")
    complete = schemas.truth("Whether all recorded decisions were read.")
    picked = schemas.number("Decisions in the selection.")
    facets = schemas.nested(Facet, "The facets.", many=True)
    buckets = schemas.nested(DecisionBucket, "Stretches of equal time, oldest first.", many=True)
    metadata = schemas.nested(answers.Shown, "The moment.")


@blueprints.get(routes, "/decisions/facets", Facets, query=FacetsQuery, also_status=(429,), tagged=True)
def facets(query: pages.Query) -> flask.Response:
    """The values of each facet with their numbers, inside and outside a selected stretch of time."""
    shown = moments.take(query.get("at") or moments.NOW)
    with services.current().turns.admitted():
        body = _body(shown, query)
    return answers.encoded(body)


def _body(shown: moments.Moment, query: pages.Query) -> pages.Body:
    scan = decisions.Scan(decisions.asked(query), shown.position, since=query.get("since"))
    rows = [_Row(one, query) for one in scan if decisions.wanted(one, query, shown)]
    picked = sum(row.picked for row in rows)
    return {
        "examined": len(rows),
        "complete": scan.unfinished is None,
        "picked": picked,
        "facets": [_facet(name, rows, picked) for name in FACETS],
        "buckets": list(_buckets(rows, int(query["buckets"]))),
        "metadata": answers.shown(shown),
    }


class _Row:
    """What is counted of a decision."""

    __slots__ = ("at_ms", "milliseconds", "outcome", "picked", "values")

    def __init__(self, decision: records.Decision, query: pages.Query) -> None:
        self.at_ms = _milliseconds(decision.at)
        self.milliseconds = decision.milliseconds
        self.outcome = decision.outcome
        since, until = query.get("pickedSince"), query.get("pickedUntil")
        self.picked = (since is not None or until is not None) and not (
            (since is not None and self.at_ms < since.time_ms)
            or (until is not None and self.at_ms >= until.time_ms)
        )
        self.values: dict[str, tuple[str, ...]] = {
            "verb": (decision.verb,),
            "outcome": (decision.outcome,),
            "plugin": decision.plugins,
            "reason": tuple(decision.reasons),
            "object": decision.objects,
            "namespace": (decision.pod.namespace,),
            "node": (decision.node,) if decision.node else (),
        }


def _facet(name: str, rows: list[_Row], picked: int) -> pages.Body:
    counts: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for row in rows:
        counts.update(row.values[name])
        if row.picked:
            inside.update(row.values[name])
    others = len(rows) - picked

    def differs(value: str) -> float:
        if not picked:
            return 0.0
        return abs(inside[value] / picked - (counts[value] - inside[value]) / max(1, others))

    ordered = sorted(counts, key=lambda value: (-differs(value), -counts[value], value))
    return {
        "name": name,
        "values": [
            {"value": value, "count": counts[value], "picked": inside[value]}
            for value in ordered[:_MOST_VALUES]
        ],
        "more": max(0, len(ordered) - _MOST_VALUES),
    }


def _buckets(rows: list[_Row], number: int) -> Iterator[pages.Body]:
    timed = [row for row in rows if row.at_ms]
    if not timed:
        return
    first = min(row.at_ms for row in timed)
    width = max(1, -(-(max(row.at_ms for row in timed) - first + 1) // number))
    held: dict[int, list[_Row]] = {}
    for row in timed:
        held.setdefault((row.at_ms - first) // width, []).append(row)
    for at in range(max(held) + 1):
        part = held.get(at, [])
        durations = sorted(row.milliseconds for row in part)
        yield {
            "from": times.rfc3339((first + at * width) / 1000),
            "to": times.rfc3339(min(first + (at + 1) * width, times.LAST_MS) / 1000),
            "outcomes": dict(Counter(row.outcome for row in part)),
            "p50": durations[len(durations) // 2] if durations else None,
            "p99": durations[len(durations) * 99 // 100] if durations else None,
        }


def _milliseconds(text: str) -> int:
    try:
        return times.milliseconds(text)
    except ValueError:
        return 0
