"""The events as they are appended: Server-Sent Events, resumed by the position of the last one."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import flask
import msgspec
from marshmallow import fields, validate

from app.api import errors
from app.api.introspection import arrivals, blueprints, moments, pages, queries, services
from app.api.v1 import events as event_views
from app.domain import events, model
from app.store import errors as store_errors
from app.store.log import readers

routes = blueprints.create("watch", "/apis/v1", "The events as they are appended.")
_POLL = 1.0
"""Seconds after which a stream without events is checked."""
_HEAD = 15.0
"""Seconds after which the head is sent at the latest."""
_STALE = 5.0
"""Seconds since the log was last read from which the head is sent every second, with its age: readers see
that the silence is not that of the cluster."""
_OBJECTS = 100
_encode = msgspec.json.Encoder(order="sorted").encode


class WatchQuery(queries.Empty):
    """Which events, and from where."""

    from_ = queries.at("Only events behind this position; Last-Event-ID comes first", data_key="from")
    type = queries.event_type()
    object = queries.about()
    namespace = queries.text("Only events about objects of this namespace.")
    tick = fields.Integer(
        validate=validate.Range(50, 60_000),
        metadata={"description": "Send only summaries of these events, at most one in so many milliseconds."},
    )


@blueprints.stream(
    routes,
    "/watch",
    query=WatchQuery,
    content_type="text/event-stream",
    shape={"type": "object", "properties": {name: {"type": "string"} for name in ("id", "event", "data")}},
    description="Server-Sent Events; data is JSON.",
)
def watch(query: pages.Query) -> flask.Response:
    """The events as they are appended, with ``head``, ``gap`` and ``incarnation`` messages between them.

    The id of each message is its position; a client that sends it as Last-Event-ID continues behind it.
    """
    given = services.current()
    start = _start(query)
    query = {**query, "object": event_views.subject_of(query)}
    stream = _Stream(given.streams, given, query, start, given.stream_seconds)
    identity = given.identity()
    given.streams.enter(identity)
    response = flask.Response(stream.messages(), mimetype="text/event-stream")
    response.call_on_close(lambda: given.streams.leave(identity))
    return response


def _start(query: pages.Query) -> model.Position:
    """The position that the stream begins behind. Raises Problem 400 or 410."""
    given = services.current()
    text = flask.request.headers.get("Last-Event-ID", "")
    try:
        asked = moments.parse(text) if text else query.get("from_")
    except ValueError as error:
        raise errors.bad(f"Last-Event-ID: {error}") from error
    offset, shown = moments.span(asked)
    now = shown.position
    if offset is None:
        return now
    oldest = given.histories.oldest()
    if offset + 1 < oldest:
        raise store_errors.Trimmed(oldest)
    return model.Position(now.incarnation, offset)


@dataclass
class _Stream:
    arrivals: arrivals.Arrivals
    given: services.Services
    query: pages.Query
    position: model.Position
    seconds: float
    """How long it lasts at most."""
    moved: Counter[str] = field(default_factory=Counter)
    """Type -> number of events since the last summary."""
    objects: dict[str, None] = field(default_factory=dict)
    """The subjects of these events, the first ones."""

    def messages(self) -> Iterator[bytes]:
        """The messages; a comment at least every second."""
        tick = int(self.query.get("tick", 0)) / 1000
        started = due = time.monotonic()
        stale = False
        while True:
            now = time.monotonic()
            was, stale = stale, self.given.follower.lag_seconds > _STALE
            if now >= due or stale != was:
                if self.moved:
                    # What arrived while the summary was due belongs to it, too.
                    yield from self._caught_up(self.given.follower.snapshot.position)
                yield self._head()
                due = now + (_POLL if stale else _HEAD)
            before = self.position
            left = min(_POLL, due - now, started + self.seconds - now)
            snapshot = self.arrivals.wait(before.incarnation, before.offset, max(0.0, left))
            yield from self._caught_up(snapshot.position)
            if tick and self.position != before:
                due = min(due, now + tick)
            if time.monotonic() - started >= self.seconds and self.position == snapshot.position:
                if self.moved:
                    yield self._head()
                return
            if tick and self.position != before:
                time.sleep(max(0.0, min(tick, due - time.monotonic())))
            elif self.position == before != snapshot.position:
                time.sleep(_POLL)  # What is there cannot be read: the store is away.
            # A comment: what passes the stream on notices that its client has hung up only when it writes.
            yield b":\n\n" if self.position == before else b""

    def _caught_up(self, head: model.Position) -> Iterator[bytes]:
        if head.incarnation != self.position.incarnation:
            yield from self._begun_again(head)
        while self.position.offset < head.offset:
            try:
                run = self.arrivals.after(head.incarnation, self.position.offset, head.offset)
            except store_errors.Trimmed as trimmed:
                last = min(head.offset, trimmed.oldest - 1)
                if last <= self.position.offset:
                    return
                yield self._gap(self.position.offset + 1, last, "these events are no longer kept")
                continue
            except store_errors.StoreError:
                return
            if not run:
                return
            for entry in run:
                yield from self._message(entry)
            if self.position.offset < head.offset:
                yield b""  # If nothing of it was wanted, the sender notices whether the client is there.

    def _begun_again(self, head: model.Position) -> Iterator[bytes]:
        """Go on with the event that began the incarnation: what is behind it was not sent."""
        former, entry = self.position, self._first_entry(head)
        offset = head.offset if entry is None else entry.offset
        self.position = model.Position(head.incarnation, offset if entry is None else offset - 1)
        began = {"from": str(former), "to": f"{head.incarnation}/{offset}"}
        yield _written("incarnation", self.position, began)
        lost = entry.event if entry is not None else None
        if isinstance(lost, events.StoreRewound) and lost.lost_from <= lost.lost_to:
            # Of offsets of the former incarnation: the position stays.
            gap = {
                "from": lost.lost_from,
                "to": lost.lost_to,
                "reason": f"the store lost them: {lost.reason}",
            }
            yield _written("gap", self.position, gap)

    def _first_entry(self, head: model.Position) -> readers.Entry | None:
        """The entry that began the incarnation; None if it can no longer be read."""
        offset = self.given.follower.snapshot.version(events.INCARNATION)
        try:
            found = self.given.histories.entries(offset, offset) if offset else []
        except store_errors.StoreError:
            return None
        return found[0] if found and offset <= head.offset else None

    def _message(self, entry: readers.Entry) -> Iterator[bytes]:
        self.position = model.Position(self.position.incarnation, entry.offset)
        event = entry.event
        if isinstance(event, events.Relisted) and event.since:
            yield self._gap(entry.offset - 1, entry.offset, f"{event.kind} was not watched: {event.reason}")
        if not self._wanted(event):
            return
        if "tick" in self.query:
            self.moved[type(event).__name__] += 1
            if len(self.objects) < _OBJECTS:
                self.objects[event.subject] = None
            return
        shown = event_views.shown(entry)
        yield _written(str(shown["type"]), self.position, shown)

    def _wanted(self, event: events.AnyEvent) -> bool:
        kind, subject, namespace = (self.query.get(name) for name in ("type", "object", "namespace"))
        return (
            (kind is None or type(event).__name__ == kind)
            and (subject is None or event_views.about(event, str(subject)))
            and (namespace is None or event_views.within(event, str(namespace)))
        )

    def _head(self) -> bytes:
        data = {
            "position": str(self.position),
            "age": round(max(0.0, self.given.follower.lag_seconds), 3),
            "types": dict(self.moved),
            "objects": list(self.objects),
        }
        self.moved.clear()
        self.objects.clear()
        return _written("head", self.position, data)

    def _gap(self, first: int, last: int, reason: str) -> bytes:
        self.position = model.Position(self.position.incarnation, max(self.position.offset, last))
        return _written("gap", self.position, {"from": first, "to": last, "reason": reason})


def _written(kind: str, position: model.Position, data: object) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (str(position).encode(), kind.encode(), _encode(data))
