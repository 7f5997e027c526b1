"""Shows the decisions that would have been others in a replay."""

from marshmallow import Schema

from app.api.introspection import pages, schemas
from app.verbs.questions import replays
from app.verbs.questions.shadows import shadow_comparison


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


class Numbers(Schema):
    """How many of the recorded decisions would have been others."""

    examined = schemas.number("Decisions that were compared.")
    same = schemas.number("Those that would have been the same.")
    classes = schemas.counts("Class -> decisions that would have been others.")
    skipped = schemas.counts("Cause -> decisions that cannot be compared.")


class Differences(Numbers):
    """How many of the recorded decisions would have been others, and which."""

    by = schemas.anything(
        "verb, namespace, plugin (that refused, then or now), object (KIND:NAME that the decision concerns;"
        f" the first {replays.MOST_OBJECTS:,}, all others as an empty name) -> value -> decisions that would"
        " have been others."
    )
    idle = schemas.anything(
        "The indexes of overrides that changed nothing at any decision; null without a compared decision."
    )
    unapplied = schemas.anything(
        "Of those, the indexes of overrides that applied to no snapshot -> why; null without a compared"
        " decision."
    )
    items = schemas.nested(
        Item,
        "Those that would have been others: at most ``limit``, by class; of a shadow the latest 100.",
        many=True,
    )


def counted(run: replays.Replay | shadow_comparison.ComparisonReport) -> pages.Body:
    """The numbers and items of a replay."""
    return {
        "examined": run.examined,
        "same": run.classes[replays.SAME],
        "classes": {name: run.classes[name] for name in replays.CLASSES},
        "skipped": {cause: run.skipped[cause] for cause in replays.SKIPPED},
        "by": {what: dict(sorted(numbers.items())) for what, numbers in run.by.items()},
        "idle": run.idle,
        "unapplied": None if run.unapplied is None else {str(at): why for at, why in run.unapplied.items()},
        "items": [_item(one) for one in run.items],
    }


def _item(one: replays.Item) -> pages.Body:
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


def _answered(answer: replays.ReplayedAnswer) -> pages.Body:
    return {"kept": answer.kept, "reasons": dict(answer.reasons), "node": answer.node}
