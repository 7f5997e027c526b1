"""The smallest changes that would let a pod or a whole gang fit, spelled as overrides."""

from typing import NamedTuple

from marshmallow import Schema, fields

from app.api.introspection import blueprints, pages, schemas
from app.api.v1.questions import bodies, offers
from app.domain import events, snapshots
from app.verbs.questions import (
    candidate_choice,
    errors,
    minimal_changes,
    question_schema,
    simulated_placements,
    situations,
)
from app.verbs.questions.groups import fitting_groups, group_placement

routes = blueprints.create("fit", "/apis/v1", "Hypothetical questions: nothing is changed.")


class Change(Schema):
    """A change after which the pod fits, or the group is placed."""

    message = schemas.text("What would have to change.")
    cost = schemas.number("Its cost; all changes of an answer have the lowest.")
    kept = schemas.number("Nodes that are kept then; of a group, members that are placed.")
    overrides = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "The change as overrides; see Override."},
    )


class Fitted(Schema):
    """The smallest changes that would let a pod or a group fit."""

    situation = schemas.nested(bodies.SituationShown, "The situation.")
    fits = schemas.truth("Whether the pod or the group fits without any change.")
    summary = schemas.text("One sentence: how many nodes fit, or members are placed, and why no more.")
    changes = schemas.nested(Change, "The changes, the cheapest only.", many=True)
    more = schemas.truth("Whether there are other changes of that cost, beyond ``most``.")
    tried = schemas.number("Changes that were evaluated.")
    complete = schemas.truth(
        "False if a change that may be smaller was left out: the budget was spent, or there were too many."
    )
    limits = schemas.texts("What the answer does not model.")
    notModelled = schemas.texts(bodies.NOT_MODELLED)
    spentMs = schemas.number("Milliseconds of work.")


@blueprints.ask(routes, "/fit", Fitted, question="Fit")
def fit(_: pages.Query) -> pages.Body:
    """The smallest changes of objects, nodes, labels or pods that would let a pod, or a whole gang, fit.

    Each is spelled as overrides: appended to those of the situation, they make simulate place it.
    """
    question = bodies.read(question_schema.Fit)
    with bodies.answering():
        asked = (question.pod, question.gang, question.group)
        if sum(one is not None for one in asked) != 1:
            raise errors.Mistake("", "exactly one of pod, gang and group is required")
        supposed = bodies.hypothesis(question.situation)
        shown = bodies.moment(question.situation)
        budget = bodies.Budget(question.budget)
        supposed = budget.limited(supposed)
        one_pod = question.pod is not None
        found = (_pod if one_pod else _group)(question, supposed, shown.snapshot, budget)
        answer = found.answer
        return {
            "situation": bodies.shown(found.resolved),
            "fits": answer.fits,
            "summary": answer.summary,
            "changes": [
                {
                    "message": one.message,
                    "cost": one.cost,
                    "kept": one.kept,
                    "overrides": list(one.overrides),
                }
                for one in answer.changes
            ],
            "more": answer.more,
            "tried": answer.tried,
            "complete": answer.complete,
            "limits": found.limits,
            "notModelled": found.lacking,
            "spentMs": budget.spent,
        }


class _Found(NamedTuple):
    """An answer, and what it does not model."""

    resolved: situations.Resolved
    answer: minimal_changes.Fit
    limits: list[str]
    lacking: list[str]


def _pod(
    question: question_schema.Fit,
    supposed: situations.Supposition,
    snapshot: snapshots.Snapshot,
    budget: bodies.Budget,
) -> _Found:
    given = (question.pod,) if question.pod is not None else ()
    (uid,), added = simulated_placements.introduced(given, snapshot, "pod")
    resolved = situations.resolve(snapshot, supposed, first=added)
    asked = resolved.base.pod(uid)
    if asked is None:
        raise errors.Missing("the pod of the question does not exist in the situation")
    supposed_pod = snapshot.pod(uid) is None
    offer = offers.of_one(question.candidates, asked, resolved, supposed=supposed_pod)
    answer = minimal_changes.fit(
        resolved, uid, offer.names, question.allow, question.most, budget.running, roomy=offer.roomy
    )
    limits = [
        *offer.limits,
        *simulated_placements.unscheduled((asked,), resolved.base),
        *simulated_placements.unadmitted(given, supposed.operations),
    ]
    return _Found(resolved, answer, limits, offer.lacking)


def _group(
    question: question_schema.Fit,
    supposed: situations.Supposition,
    snapshot: snapshots.Snapshot,
    budget: bodies.Budget,
) -> _Found:
    name, added = question.group or "", list[events.AnyEvent]()
    if question.gang is not None:
        name, added = group_placement.introduced(question.gang, supposed.plugins, snapshot)
    resolved = situations.resolve(snapshot, supposed, first=added)
    names, limit = candidate_choice.several(question.candidates, resolved.base)
    offered = resolved.offered(names) if names is not None else None
    group = group_placement.find(resolved.plugins, resolved.snapshot, name)
    lacking = candidate_choice.lacking(names, resolved.snapshot, group.waiting)
    answer = fitting_groups.fit(resolved, name, offered, question.allow, question.most, budget.running)
    given = (question.gang.template,) if question.gang is not None else ()
    limits = [
        *candidate_choice.limits(limit, lacking),
        *simulated_placements.unadmitted(given, supposed.operations),
    ]
    return _Found(resolved, answer, limits, lacking)
