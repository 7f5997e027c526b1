"""Replay: which recorded decisions would have been others under another situation."""

from app.api.introspection import blueprints, heavy, pages, schemas, services
from app.api.v1.questions import bodies, chains, differences, ranges
from app.store.state import walks
from app.verbs.questions import errors, question_schema, replays

routes = blueprints.create("replay", "/apis/v1", "Hypothetical questions: nothing is changed.")
_LIMITS = (
    "each decision is computed on its own snapshot: what an earlier one would have changed is not carried on",
    "candidates are those that kube-scheduler offered at the time",
)


class Replayed(differences.Differences):
    """The recorded decisions of a range, computed again in another situation."""

    from_ = schemas.text("The first position.", data_key="from")
    to = schemas.text("The last position.")
    configuration = schemas.text("The digest of the configuration that decided.")
    complete = schemas.truth("False if the budget was spent before the end of the range.")
    continue_ = schemas.optional(
        "The value of ``continue`` for the rest of the range; null at its end.", data_key="continue"
    )
    chain = schemas.nested(chains.Chained, "With chain: what would have become of the cluster.", null=True)
    limits = schemas.texts("What the answer does not model.")
    spentMs = schemas.number("Milliseconds of work.")


@blueprints.ask(routes, "/replay", Replayed, question="Replay")
def replay(_: pages.Query) -> pages.Body:
    """Which recorded decisions would have been others under other overrides or another configuration.

    Each decision has the gravest class that holds: refused (it fitted, and would not), admitted, node
    (filter_onlyone would choose another), nodes (another set is kept), reason, scores, same. 404 NotRecorded
    if no decision of the range is recorded.
    """
    question = bodies.read(question_schema.Replay)
    with bodies.answering():
        given = services.current()
        situation = question_schema.Situation(
            overrides=question.overrides, configuration=question.configuration
        )
        supposed = bodies.hypothesis(situation, "")
        begin, shown, kept = bodies.kept_span(question)
        budget = bodies.Budget(question.budget)
        incarnation, last = shown.position.incarnation, shown.position.offset
        if question.mode == "chain":
            if question.continue_:
                raise errors.Mistake("continue", "a chain is answered at once: raise the budget")
            return chains.answer(question, supposed.plugins.digest, begin, shown, budget, kept)
        first = begin or 0
        selected = ranges.Range(question, incarnation, first, last, budget)
        run = replays.Replay(
            lambda configured: bodies.hypothesis(situation, "", configured),
            given.configurations,
            scores=question.compare == "scores",
            limit=question.limit,
            first=question.first,
        )
        following = _each(run, selected)
        unrecorded = selected.limits()
    return {
        **differences.counted(run),
        "from_": f"{incarnation}/{first}",
        "to": str(shown.position),
        "configuration": supposed.plugins.digest,
        "complete": following is None,
        "continue_": following,
        "chain": None,
        "limits": [*_LIMITS, *kept, *unrecorded],
        "spentMs": budget.spent,
    }


def _each(run: replays.Replay, selected: ranges.Range) -> str | None:
    """Compare the records of the range; returns the id of the last one if there may be more."""
    walk = walks.Walk(services.current().histories, heavy.attended())
    for decision in selected.decisions():
        with ranges.skipping(run, decision):
            if selected.comparable(run, decision):
                snapshot = walk.to(decision.position.offset)
                run.compare(decision, services.current().decisions.candidates(decision, snapshot), snapshot)
    return selected.rest
