"""Bisection: since when a pod fits or does not, a count is reached, pods wait, or an object exists."""

import itertools
from typing import Final

from marshmallow import Schema

from app.api.introspection import blueprints, heavy, moments, pages, schemas, services
from app.api.v1 import decisions
from app.api.v1 import events as listed
from app.api.v1.questions import bodies
from app.domain import snapshots
from app.store.decisions import records
from app.verbs.explain import explanations
from app.verbs.questions import bisection, candidate_choice, question_schema

_RECORDS: Final = 500
"""Records of the pod that are read."""
routes = blueprints.create("bisect", "/apis/v1", "Hypothetical questions: nothing is changed.")


class Since(Schema):
    """The event at which the answer changed, with both sides of it."""

    before = schemas.text("The position before the event, where the answer was the other one.")
    after = schemas.text("The position after it.")
    event = schemas.nested(listed.Event, "The event, or null if its entry is no longer kept.", null=True)


class Bisected(Schema):
    """Since when the answer is what it is."""

    now = schemas.truth("The answer at ``to``.")
    since = schemas.nested(Since, "The last change; null if it did not change since ``from``.", null=True)
    from_ = schemas.text("The first position that was considered.", data_key="from")
    to = schemas.text("The last position.")
    examined = schemas.number("Snapshots that were examined.")
    complete = schemas.truth("False if the budget was spent: the change lies between before and after.")
    limits = schemas.texts("What the answer does not model.")
    spentMs = schemas.number("Milliseconds of work.")


@blueprints.ask(routes, "/bisect", Bisected, question="Bisect")
def bisect(_: pages.Query) -> pages.Body:
    """The last event at which the answer changed: to fits or not, to a count, to pods that wait.

    Gallops back from ``to``, for a pod at most to its latest recorded attempt of another result, then halves.
    Without ``from`` it goes back to the oldest event that can be read.
    """
    question = bodies.read(question_schema.Bisect)
    with bodies.answering():
        given = services.current()
        begin, shown = bodies.span(question)
        budget = bodies.Budget(question.budget)
        predicate = bisection.predicate(question, given.registry, shown.snapshot)
        last = shown.position.offset
        first = min(bodies.oldest(), last) if begin is None else begin
        attended = heavy.attended()
        found = bisection.bisect(
            lambda offset: (
                shown.snapshot if offset == last else given.histories.at(offset, attended=attended)
            ),
            predicate,
            first,
            last,
            budget.running,
            _recorded(question, shown),
        )
        incarnation = shown.position.incarnation
        return {
            "now": found.now,
            "since": None if found.offset is None else _since(found.offset, found.low, incarnation),
            "from_": f"{incarnation}/{first}",
            "to": str(shown.position),
            "examined": found.examined,
            "complete": found.complete,
            "limits": [
                "an answer that changed there and back between two steps of the search is not noticed",
                *_offered(question, shown.snapshot),
                *_unknown(question, shown.snapshot),
            ],
            "spentMs": budget.spent,
        }


def _recorded(question: question_schema.Bisect, shown: moments.Moment) -> list[tuple[int, bool]]:
    """Offset and result of the recorded attempts of the pod, newest first."""
    if question.fits is None:
        return []
    scan = decisions.Scan(records.DecisionQuery(pod=question.fits), shown.position)
    return [
        (one.position.offset, bool(one.kept))
        for one in itertools.islice(scan, _RECORDS)
        if one.verb in explanations.ATTEMPTS
        and not one.error
        and one.position.incarnation == shown.position.incarnation
    ]


def _offered(question: question_schema.Bisect, last: snapshots.Snapshot) -> list[str]:
    """The limitations by the candidates of a question about a pod."""
    if question.fits is None:
        return []
    names, limit = candidate_choice.of(question.candidates, last)
    pods = [pod for pod in (last.pod_named(*question.fits.split("/")),) if pod is not None]
    return candidate_choice.limits(f"{limit}, at each moment", candidate_choice.lacking(names, last, pods))


def _unknown(question: question_schema.Bisect, last: snapshots.Snapshot) -> list[str]:
    """That the count of the question may be misspelled."""
    if question.count is None or question.count.count in last.counts:
        return []
    return [f"there is no count {question.count.count[:200]!r} at the end of the range: it is taken as 0"]


def _since(offset: int, low: int, incarnation: str) -> pages.Body:
    entries = services.current().histories.entries(offset, offset)
    return {
        "before": f"{incarnation}/{low}",
        "after": f"{incarnation}/{offset}",
        "event": listed.shown(entries[0]) if entries else None,
    }
