"""Frames of a window: the map at several moments, of which each holds what differs from the one before."""

import flask
from marshmallow import Schema, fields, validate

from app.api.introspection import blueprints, pages, queries, schemas, services, times
from app.api.v1.pictures import answers, maps, walks
from app.domain import model
from app.verbs.pictures import colours, figures, layouts

routes = blueprints.create("frames", "/apis/v1", "The cluster as moving pictures.")
MOST = 120
_USUAL_WINDOW = 5000


class FramesQuery(queries.Parameters):
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


@blueprints.get(routes, "/frames", Frames, query=FramesQuery, also_status=(429,), tagged=True)
def frames(query: pages.Query) -> flask.Response:
    """The map at several moments of a window, over the nodes of all of them."""
    found = answers.window(query, usual=_USUAL_WINDOW)
    return answers.windowed(found, lambda: _body(found, query))


def _body(found: answers.Window, query: pages.Query) -> pages.Body:
    stops = walks.stops(found.first, found.last, int(query["count"]))
    labels: dict[model.NodeName, dict[str, str]] = {}
    passed: list[walks.Stop] = []
    for stop in walks.along(stops):
        nodes = stop.snapshot.nodes
        if not passed or nodes is not passed[-1].snapshot.nodes:
            # The latest labels of a node give it its place.
            labels.update({name: nodes[name].labels for name in stop.touched or nodes if name in nodes})
            maps.bounded(len(labels))
        passed.append(stop)
    arranged = layouts.arranged(labels, maps.levels(query.get("levels"), found.end.snapshot))
    painter = maps.painter_of(str(query["color"]))
    drawn = _Drawn(painter, arranged.names)
    rendered = [drawn.frame(stop) for stop in passed]
    return {
        **maps.described(arranged, None),
        "color": query["color"],
        "classes": maps.classes(painter, "".join(drawn.values)),
        "frames": rendered,
        "metadata": answers.ranged(found),
    }


def _time(stop: walks.Stop) -> str:
    at_ms, offset = stop.at_ms, stop.snapshot.offset
    if not at_ms and offset:
        at_ms = services.current().histories.appended_ms(offset) or 0
    return times.rfc3339(at_ms / 1000) if at_ms else ""


class _Drawn:
    """Draws one frame after the other; a node that nothing happened to is not computed again."""

    def __init__(self, painter: colours.Painter, names: tuple[model.NodeName, ...]) -> None:
        self._painter = painter
        self._names = names
        self._places = {name: at for at, name in enumerate(names)}
        self._tally = figures.Tally()
        self.values: list[str] = []

    def frame(self, stop: walks.Stop) -> pages.Body:
        """The frame of the next stop."""
        first, snapshot = not self.values, stop.snapshot
        self._tally.move(snapshot, stop.touched)
        changes: list[tuple[int, str]] = []
        if first:
            self.values = list(colours.letters(self._painter, snapshot, self._names))
        else:
            changes = self._changes(stop)
            for index, letter in changes:
                self.values[index] = letter
        return {
            "offset": snapshot.offset,
            "at": _time(stop),
            "nodes": len(snapshot.nodes),
            "ready": self._tally.ready,
            "pods": self._tally.running,
            "waiting": len(snapshot.waiting),
            "inFlight": len(snapshot.placements),
            "values": "".join(self.values) if first else None,
            "changes": changes,
        }

    def _changes(self, stop: walks.Stop) -> list[tuple[int, str]]:
        snapshot, places = stop.snapshot, self._places
        paint, nodes = self._painter.paint(snapshot), snapshot.nodes
        found = []
        names = stop.touched & places.keys() if self._painter.by_node else self._names
        for name in names:
            letter = colours.LETTERS[paint(name)] if name in nodes else colours.ABSENT
            if letter != self.values[places[name]]:
                found.append((places[name], letter))
        return sorted(found)
