"""The smallest changes that would let a pod fit, spelled as overrides."""

from marshmallow import Schema, fields

from app.api.introspection import blueprints, pages, schemas
from app.api.v1.questions import bodies, offers
from app.verbs.questions import asking, errors, fitting, simulating, situations

routes = blueprints.create("fit", "/apis/v1", "Hypothetical questions: nothing is changed.")


class Change(Schema):
    """A change after which the pod fits."""

    message = schemas.text("What would have to change.")
    cost = schemas.number("Its cost; all changes of an answer have the lowest.")
    kept = schemas.number("Nodes that are kept then.")
    overrides = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "The change as overrides; see Override."},
    )


class Fitted(Schema):
    """The smallest changes that would let a pod fit."""

    situation = schemas.nested(bodies.SituationShown, "The situation.")
    fits = schemas.truth("Whether the pod fits without any change.")
    summary = schemas.text("One sentence: how many nodes fit, and why the others do not.")
    changes = schemas.nested(Change, "The changes, the cheapest only.", many=True)
    tried = schemas.number("Changes that were evaluated.")
    complete = schemas.truth("False if the budget was spent before all changes were evaluated.")
    limits = schemas.texts("What the answer does not model.")
    notModelled = schemas.texts(bodies.NOT_MODELLED)
    spentMs = schemas.number("Milliseconds of work.")


@blueprints.ask(routes, "/fit", Fitted, question="Fit")
def fit(_: pages.Query) -> pages.Body:
    """The smallest changes of objects, nodes, labels or pods that would let a pod fit.

    Each is spelled as overrides: appended to those of the situation, they make simulate find a node.
    """
    question = bodies.read(asking.Fit)
    with bodies.answering():
        supposed = bodies.hypothesis(question.situation)
        shown = bodies.moment(question.situation)
        budget = bodies.Budget(question.budget)
        (uid,), added = simulating.introduced((question.pod,), shown.snapshot, "pod")
        resolved = situations.resolve(shown.snapshot, supposed, first=added)
        asked = resolved.base.pod(uid)
        if asked is None:
            raise errors.Missing("the pod of the question does not exist in the situation")
        offer = offers.of_one(question.candidates, asked, resolved)
        answer = fitting.fit(
            resolved,
            uid,
            offer.names,
            question.allow,
            question.most,
            budget.running,
            roomy=offer.roomy,
        )
        return {
            "situation": bodies.shown(resolved),
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
            "tried": answer.tried,
            "complete": answer.complete,
            "limits": offer.limits,
            "notModelled": offer.lacking,
            "spentMs": budget.spent,
        }
