"""Replay: which recorded decisions would have been others under another situation."""

from collections.abc import Iterator

from marshmallow import Schema

from app.api.introspection import blueprints, moments, pages, schemas, services
from app.api.v1.questions import bodies, walks
from app.store import errors as store_errors
from app.store.decisions import records
from app.verbs.questions import asking, replaying

routes = blueprints.create("replay", "/apis/v1", "Hypothetical questions: nothing is changed.")
_PAGE = 500
_LIMITS = (
    "each decision is computed on its own snapshot: what an earlier one would have changed is not carried on",
    "candidates are those that kube-scheduler offered at the time",
)


class Answered(Schema):
    """An answer."""

    kept = schemas.number("Nodes kept.")
    reasons = schemas.counts("Reason -> nodes refused for it.")
    node = schemas.text("The one node, for filter_onlyone and bind.")


class Item(Schema):
    """A decision that would have been another."""

    id = schemas.text("Its id.")
    at = schemas.text("When it was answered (RFC 3339).")
    verb = schemas.text("The verb.")
    pod = schemas.nested(schemas.PodReference, "The pod.")
    position = schemas.text("The log position that it was decided at.")
    class_ = schemas.text("refused, admitted, node, nodes, reason or scores.", data_key="class")
    was = schemas.nested(Answered, "The answer.")
    would = schemas.nested(Answered, "The answer in the situation.")
    explain = schemas.text("The path that explains the decision.")


class Replayed(Schema):
    """The recorded decisions of a range, computed again in another situation."""

    from_ = schemas.text("The first position.", data_key="from")
    to = schemas.text("The last position.")
    configuration = schemas.text("The digest of the configuration that decided.")
    looked = schemas.number("Decisions that were compared.")
    same = schemas.number("Those that would have been the same.")
    classes = schemas.counts("Class -> decisions that would have been others.")
    skipped = schemas.counts("Cause -> decisions that cannot be compared.")
    by = schemas.anything("verb, namespace, plugin -> decisions that would have been others.")
    idle = schemas.anything("The indexes of overrides that changed nothing at any decision.")
    items = schemas.nested(Item, "The first that would have been others; at most ``limit``.", many=True)
    complete = schemas.truth("False if the budget was spent before the end of the range.")
    continue_ = schemas.optional(
        "The value of ``continue`` for the rest of the range; null at its end.", data_key="continue"
    )
    limits = schemas.texts("What the answer does not model.")
    spentMs = schemas.number("Milliseconds of work.")


@blueprints.ask(routes, "/replay", Replayed, question="Replay")
def replay(_: pages.Query) -> pages.Body:
    """Which recorded decisions would have been others under other overrides or another configuration.

    Each decision has the gravest class that holds: refused (it fitted, and would not), admitted, node
    (filter_onlyone would choose another), nodes (another set is kept), reason, scores, same.
    """
    question = bodies.read(asking.Replay)
    with bodies.answering():
        given = services.current()
        situation = asking.Situation(overrides=question.overrides, configuration=question.configuration)
        supposed = bodies.hypothesis(situation, "")
        shown = moments.take(bodies.at(question.to, "to"))
        first = bodies.offset(bodies.at(question.from_, "from"))
        budget = bodies.Budget(question.budget)
        run = replaying.Replay(
            lambda configured: bodies.hypothesis(situation, "", configured),
            given.configurations,
            scores=question.compare == "scores",
            limit=question.limit,
        )
        last = _run(run, question, (first, shown.position.offset), budget)
    incarnation = shown.position.incarnation
    return {
        "from_": f"{incarnation}/{first}",
        "to": str(shown.position),
        "configuration": supposed.plugins.digest,
        "looked": run.looked,
        "same": run.classes[replaying.SAME],
        "classes": {name: run.classes[name] for name in replaying.CLASSES},
        "skipped": {cause: run.skipped[cause] for cause in replaying.SKIPPED},
        "by": {what: dict(sorted(numbers.items())) for what, numbers in run.by.items()},
        "idle": run.idle,
        "items": [_item(one) for one in run.items],
        "complete": last is None,
        "continue_": last,
        "limits": list(_LIMITS),
        "spentMs": budget.spent,
    }


def _run(
    run: replaying.Replay, question: asking.Replay, offsets: tuple[int, int], budget: bodies.Budget
) -> str | None:
    """Look at the records of the range; returns the id of the last one if there may be more."""
    given, walk = services.current(), walks.Walk()
    incarnation = given.follower.snapshot.position.incarnation
    first, last = offsets
    seen = 0
    for decision in _records(question, first):
        if question.verbs and decision.verb not in question.verbs:
            continue
        if question.namespace not in ("", decision.pod.namespace):
            continue
        same_history = decision.position.incarnation == incarnation
        if same_history and not first <= decision.position.offset <= last:
            continue
        cause = run.incomparable(decision) if same_history else "superseded"
        if cause:
            run.skip(cause)
        else:
            try:
                snapshot = walk.to(decision.position.offset)
                run.look(decision, given.decisions.candidates(decision, snapshot), snapshot)
            except store_errors.Trimmed:
                run.skip("trimmed")
            except store_errors.Shortened:
                run.skip("unrepeatable")
        seen += 1
        if seen >= replaying.MOST or not budget.running():
            return decision.id
    return None


def _records(question: asking.Replay, first: int) -> Iterator[records.Decision]:
    """The records behind ``continue``, or those that can be of the range, oldest first."""
    given = services.current()
    behind = question.continue_
    if not behind:
        # A decision is recorded after the event of its position was appended, by the same clock.
        appended = given.histories.appended_ms(first) if question.from_ and first > 1 else None
        behind = "0-0" if appended is None else f"{max(0, appended - 1)}-0"
    while True:
        page = given.decisions.since(behind, limit=_PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        behind = page[-1].id


def _item(one: replaying.Item) -> pages.Body:
    decision, pod = one.decision, one.decision.pod
    return {
        "id": decision.id,
        "at": decision.at,
        "verb": decision.verb,
        "pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "position": str(decision.position),
        "class_": one.difference,
        "was": _answered(one.was),
        "would": _answered(one.would),
        "explain": f"/apis/v1/pods/{pod.namespace}/{pod.name}/explain?decision={decision.id}",
    }


def _answered(answer: replaying.Answer) -> pages.Body:
    return {"kept": answer.kept, "reasons": dict(answer.reasons), "node": answer.node}
