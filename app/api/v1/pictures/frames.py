"""Frames of a window: the map at several moments, of which each holds what differs from the one before."""

import flask
from marshmallow import Schema, fields, validate

from app.api.introspection import blueprints, pages, queries, schemas, services, times
from app.api.v1.pictures import answers, maps, walks
from app.domain import model, snapshots
from app.verbs.pictures import colours, figures, layouts

routes = blueprints.create("frames", "/apis/v1", "The cluster as moving pictures.")
MOST = 120
_USUAL_WINDOW = 5000


class Query(Schema):
    """The window, and how many frames."""

    from_ = queries.at("The first moment of the window, instead of 5,000 events before", data_key="from")
    to = queries.at("The last moment of the window, instead of now")
    count = fields.Integer(
        load_default=60, validate=validate.Range(1, MOST), metadata={"description": "Number of frames."}
    )
    color = maps.colour()
    levels = queries.levels()


class Frame(Schema):
    """The map at one offset."""

    offset = schemas.number("The offset that it shows.")
    at = schemas.text("When the event there was appended (RFC 3339); empty if that is unknown.")
    nodes = schemas.number("Nodes.")
    ready = schemas.number("Nodes that are ready and not cordoned.")
    pods = schemas.number("Pods that hold resources of a node.")
    waiting = schemas.number("Pods that wait for a node.")
    inFlight = schemas.number("Placements in flight.")
    values = schemas.optional("One letter for each node, in the first frame; null in the others.")
    changes = schemas.anything("[index, letter] of each node whose class differs from the frame before.")


class Frames(Schema):
    """A window as frames over one layout."""

    layout = schemas.text("The digest of names and domains.")
    color = schemas.text("What the classes show.")
    levels = schemas.texts("The label keys of the domains.")
    nodes = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "All nodes that exist in some frame, in order."},
    )
    domains = schemas.anything("[value, parent index or -1, first node, nodes] in preorder.")
    classes = schemas.nested(maps.MapClass, "The classes; counts are those of the last frame.", many=True)
    frames = schemas.nested(Frame, "The frames, oldest first.", many=True)
    metadata = schemas.nested(answers.WindowShown, "The window.")


@blueprints.get(routes, "/frames", Frames, query=Query, also_status=(429,))
def frames(query: pages.Query) -> flask.Response:
    """The map at several moments of a window, over the nodes of all of them."""
    found = answers.window(query, usual=_USUAL_WINDOW)
    return answers.respond(found.end, lambda: _body(found, query), heavy=True)


def _body(found: answers.Window, query: pages.Query) -> pages.Body:
    stops = walks.stops(found.first, found.last, int(query["count"]))
    labels: dict[model.NodeName, dict[str, str]] = {}
    passed: list[tuple[snapshots.Snapshot, int]] = []
    last: snapshots.Snapshot | None = None
    for snapshot, at_ms in walks.along(stops):
        passed.append((snapshot, at_ms))
        if last is None or snapshot.nodes is not last.nodes:
            # The latest labels of a node give it its place.
            labels.update({name: node.labels for name, node in snapshot.nodes.items()})
            maps.bounded(len(labels))
        last = snapshot
    arranged = layouts.arranged(labels, maps.levels(query.get("levels"), found.end.snapshot))
    painter = maps.painter_of(str(query["color"]))
    drawn = _Drawn(painter, arranged.names)
    rendered = [drawn.frame(snapshot, _time(snapshot, at_ms)) for snapshot, at_ms in passed]
    return {
        **maps.described(arranged, None),
        "color": query["color"],
        "classes": maps.classes(painter, "".join(drawn.values)),
        "frames": rendered,
        "metadata": answers.ranged(found),
    }


def _time(snapshot: snapshots.Snapshot, at_ms: int) -> str:
    if not at_ms and snapshot.offset:
        at_ms = services.current().histories.appended_ms(snapshot.offset) or 0
    return times.rfc3339(at_ms / 1000) if at_ms else ""


class _Drawn:
    """Draws one frame after the other; a node that nothing happened to is not looked at again."""

    def __init__(self, painter: colours.Painter, names: tuple[model.NodeName, ...]) -> None:
        self._painter = painter
        self._names = names
        self._last: snapshots.Snapshot | None = None
        self.values: list[str] = []

    def frame(self, snapshot: snapshots.Snapshot, at: str) -> pages.Body:
        """The frame of the next snapshot."""
        last, self._last = self._last, snapshot
        changes: list[tuple[int, str]] = []
        if last is None:
            self.values = list(colours.letters(self._painter, snapshot, self._names))
        else:
            changes = self._changes(last, snapshot)
            for index, letter in changes:
                self.values[index] = letter
        found = figures.of(snapshot)
        return {
            "offset": snapshot.offset,
            "at": at,
            "nodes": found.nodes,
            "ready": found.ready,
            "pods": found.running,
            "waiting": found.waiting,
            "inFlight": found.in_flight,
            "values": "".join(self.values) if last is None else None,
            "changes": changes,
        }

    def _changes(self, last: snapshots.Snapshot, snapshot: snapshots.Snapshot) -> list[tuple[int, str]]:
        paint, nodes = self._painter.paint(snapshot), snapshot.nodes
        residents, before, former = snapshot.residents, last.residents, last.nodes
        same_by_node = self._painter.by_node
        found = []
        for index, name in enumerate(self._names):
            node = nodes.get(name)
            if same_by_node and node is former.get(name) and residents.get(name) is before.get(name):
                continue
            letter = colours.ABSENT if node is None else colours.LETTERS[paint(name)]
            if letter != self.values[index]:
                found.append((index, letter))
        return found
