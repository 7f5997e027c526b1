"""The map of the cluster at one moment: a class for each node, in the boxes of its domains."""

import itertools
import re
from collections import Counter

import flask
from marshmallow import Schema, fields, validate

from app.api import errors
from app.api.introspection import blueprints, heavy, moments, pages, queries, schemas, services
from app.api.v1 import decisions
from app.api.v1.pictures import answers
from app.domain import snapshots
from app.verbs.explain import explanations
from app.verbs.pictures import colours, decision_classes, layouts

routes = blueprints.create("map", "/apis/v1", "The cluster as a picture.")
MOST_NODES = 20_000
_COLOUR = re.compile(
    r"^(state|pods|resource:[A-Za-z0-9./_-]{1,317}|quota:[^\s]{1,507}|decision:[0-9]{1,20}-[0-9]{1,20}"
    r"|[a-z][A-Za-z]{0,62}:[^\s]{1,507})" + queries.END
)


def colour() -> fields.String:
    """The parameter ``color``."""
    return fields.String(
        load_default="state",
        validate=validate.Regexp(
            _COLOUR,
            error="must be state, pods, resource:NAME, quota:NAMESPACE/NAME, decision:ID or a colour of"
            " GET /apis/v1/cluster",
        ),
        metadata={
            "description": "What the classes show: state, pods, resource:NAME, quota:NAMESPACE/NAME (how full"
            " the domain of the node is), decision:ID (which nodes it kept, by rank of their scores, and"
            " which it refused), or a colour of a plugin, KIND:NAMESPACE/NAME (GET /apis/v1/cluster lists"
            " them)."
        },
    )


class Map(queries.Moment):
    """What to draw."""

    color = colour()
    levels = queries.levels()
    layout = queries.text("The layout that the client has: its names and domains are left out.")


class MapClass(Schema):
    """A class of nodes."""

    letter = schemas.text("Its letter in values.")
    label = schemas.text("What the nodes have in common.")
    look = schemas.text(
        "How it is drawn, such as kept; empty where the client chooses, if it can by the label."
    )
    count = schemas.number("How many nodes.")


class Picture(Schema):
    """A map."""

    layout = schemas.text("The digest of names and domains.")
    color = schemas.text("What the classes show.")
    levels = schemas.texts("The label keys of the domains, from the widest to the narrowest.")
    nodes = fields.List(
        fields.String(),
        required=True,
        allow_none=True,
        metadata={"description": "Names in the order of values; null if the client has the layout."},
    )
    domains = schemas.anything("[value, parent index or -1, first node, nodes] in preorder, or null.")
    classes = schemas.nested(MapClass, "The classes, each later one fuller or worse.", many=True)
    values = schemas.text("One letter for each node, in order; - for a node that does not exist then.")
    metadata = schemas.nested(answers.Shown, "The moment.")


@blueprints.get(routes, "/map", Picture, query=Map, tagged=True)
def picture(query: pages.Query) -> flask.Response:
    """The class of each node, in the boxes of its domains."""
    shown = _moment(query)
    return answers.respond(shown, lambda: _body(shown, query))


def _moment(query: pages.Query) -> moments.Moment:
    at, text = query.get("at"), str(query["color"])
    if at is None and text.startswith("decision:"):
        position = decisions.find(text.partition(":")[2]).position
        at = moments.At(offset=position.offset, incarnation=position.incarnation)
    return moments.take(at or moments.NOW)


def _body(shown: moments.Moment, query: pages.Query) -> pages.Body:
    snapshot = shown.snapshot
    bounded(len(snapshot.nodes))
    arranged = layouts.of(snapshot, levels(query.get("levels"), snapshot))
    painter = painter_of(str(query["color"]))
    values = colours.letters(painter, snapshot, arranged.names)
    return {
        **described(arranged, query.get("layout")),
        "color": query["color"],
        "classes": classes(painter, values),
        "values": values,
        "metadata": answers.shown(shown),
    }


def bounded(nodes: int) -> None:
    """Raise Problem 400 for a map of too many nodes."""
    if nodes > MOST_NODES:
        raise errors.Problem(400, "TooMuch", f"the cluster has {nodes} nodes; a map shows {MOST_NODES}")


def levels(asked: str | None, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
    """The requested levels, or those that suit the nodes."""
    if asked:
        return tuple(dict.fromkeys(asked.split(",")))
    return layouts.levels_of(snapshot, {key for held in answers.counts_of(snapshot) for key in held})


def described(arranged: layouts.Layout, known: str | None) -> pages.Body:
    """The layout, without the names and domains that the client has."""
    new = known != arranged.digest
    return {
        "layout": arranged.digest,
        "levels": list(arranged.levels),
        "nodes": list(arranged.names) if new else None,
        "domains": [list(domain) for domain in arranged.domains] if new else None,
    }


def classes(painter: colours.Painter, values: str) -> list[pages.Body]:
    """The classes with their numbers of nodes."""
    number = Counter(values)
    return [
        {"letter": letter, "label": label, "look": look, "count": number[letter]}
        for letter, label, look in zip(
            colours.LETTERS, painter.labels, painter.looks or itertools.repeat(""), strict=False
        )
    ]


def painter_of(text: str) -> colours.Painter:
    """The painter of a value of ``color``. Raises Problem 400 or 404, or a StoreError."""
    kind, _, name = text.partition(":")
    match kind:
        case "pods":
            return colours.by_resource("pods")
        case "resource":
            return colours.by_resource(name)
        case "quota":
            return colours.by_quota(name, answers.counts_of)
        case "decision":
            return _of_decision(name)
        case "state":
            return colours.by_state()
    declared = services.current().registry.painted.get(kind)
    if declared is None:
        raise errors.bad(f"color: no enabled plugin declares {kind}")
    return colours.by_object(declared, name)


def _of_decision(identifier: str) -> colours.Painter:
    given, decision = services.current(), decisions.find(identifier)
    found = explanations.explain(
        decision, given.decisions, given.histories, given.configurations, attended=heavy.attended()
    )
    return decision_classes.painter(found.trace, found.chosen)
