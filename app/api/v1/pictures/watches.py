"""The events as they are appended: Server-Sent Events, resumed by the position of the last one."""

import math
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
_ENDS = "topolog.ends"
"""Key of the environment, as the server sets it: when it ends the connection, by the monotonic clock."""
_MARGIN = 2.0
"""Seconds before that after which a stream ends by itself: it catches up in that time."""
_encode = msgspec.json.Encoder(order="sorted").encode


class WatchQuery(queries.Empty):
    """Which events, and from where."""

    from_ = queries.at("Only events behind this position; Last-Event-ID comes first", data_key="from")
    type = queries.event_type()
    object = queries.about()
    namespace = queries.text("Only events about objects of this namespace.")
    tick = fields.Integer(
        validate=validate.Range(50, 60_000),
        metadata={
            "description": "Send only summaries of these events, at most one in so many milliseconds, and one"
            " before a gap."
        },
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

    The id of each message is a position; a client that sends it as Last-Event-ID continues behind it. A gap
    that an event shows has the position before the event, which follows it. A stream ends before its
    connection gets too old (server.connection_age), and the client asks for the next one at once: with
    ``tick``, its last message is ``end``; without, each message but ``head``, ``gap`` and ``incarnation``
    is an event.
    """
    given = services.current()
    start = _start(query)
    query = {**query, "object": event_views.subject_of(query)}
    left = flask.request.environ.get(_ENDS, math.inf) - _MARGIN - time.monotonic()
    stream = _Stream(given.streams, given, query, start, min(given.stream_seconds, left))
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
    oldest = given.histories.oldest(offset + 1)
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
    """After this time it ends as soon as it has caught up. The server ends any stream with its connection."""
    moved: Counter[str] = field(default_factory=Counter)
    """Type -> number of events since the last summary."""
    objects: dict[str, None] = field(default_factory=dict)
    """The subjects of these events, the first ones."""

    def messages(self) -> Iterator[bytes]:
        """The messages; a comment at least every second."""
        tick = int(self.query.get("tick", 0)) / 1000
        due = time.monotonic()
        ends = due + self.seconds
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
            left = min(_POLL, due - now, ends - now)
            snapshot = self.arrivals.wait(before.incarnation, before.offset, max(0.0, left))
            yield from self._caught_up(snapshot.position)
            if tick and self.position != before:
                due = min(due, now + tick)
            if self.position == snapshot.position and time.monotonic() >= ends:
                if tick:
                    yield from self._notice("end", self.position, {})
                return
            if tick and self.position != before:
                time.sleep(max(0.0, min(tick, min(due, ends) - time.monotonic())))
            elif self.position == before != snapshot.position:
                time.sleep(_POLL)  # What is there cannot be read: the store is away.
            # A comment: what passes the stream on notices that its client has hung up only when it writes.
            yield b":\n\n" if self.position == before else b""

    def _caught_up(self, head: model.Position) -> Iterator[bytes]:
        if head.incarnation != self.position.incarnation:
            yield from self._begun_again(head)
            if head.incarnation != self.position.incarnation:
                return
        while self.position.offset < head.offset:
            try:
                run = self.arrivals.after(head.incarnation, self.position.offset, head.offset)
            except store_errors.Trimmed as trimmed:
                last = min(head.offset, trimmed.oldest - 1)
                if last <= self.position.offset:
                    return
                gap = _gap(self.position.offset + 1, last, "these events are no longer kept")
                yield from self._notice("gap", model.Position(head.incarnation, last), gap)
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
        """Go on with the event that began the incarnation: what is behind it was not sent.

        Until the incarnation was read whole, and while the store is away, nothing is sent and the position
        stays, so that it is tried again.
        """
        # In this order: the follower is not caught up before it has a snapshot of the new incarnation.
        read = self.given.follower.caught_up
        former, present = self.position, self.given.follower.snapshot
        offset = present.version(events.INCARNATION)
        if not (read and present.offset) or present.position.incarnation != head.incarnation:
            return
        if offset > head.offset:
            return
        try:
            found = self.given.histories.entries(offset, offset) if offset else []
        except (store_errors.StoreAway, store_errors.Rewound):
            return
        except store_errors.StoreError:
            found = []  # If it was trimmed, the gap up to what is kept comes next.
        position = model.Position(head.incarnation, offset - 1 if offset else head.offset)
        began = {"from": str(former), "to": f"{head.incarnation}/{offset or head.offset}"}
        yield from self._notice("incarnation", position, began)
        lost = found[0].event if found else None
        if isinstance(lost, events.StoreRewound) and lost.lost_from <= lost.lost_to:
            # Of offsets of the former incarnation: the position stays.
            gap = _gap(lost.lost_from, lost.lost_to, f"the store lost them: {lost.reason}")
            yield from self._notice("gap", position, gap)

    def _message(self, entry: readers.Entry) -> Iterator[bytes]:
        event = entry.event
        if isinstance(event, events.Relisted) and event.since:
            # With the id of what was sent before: behind the gap, a client continues with this event.
            before = model.Position(self.position.incarnation, entry.offset - 1)
            reason = f"{event.kind} was not watched: {event.reason}"
            yield from self._notice("gap", before, _gap(entry.offset - 1, entry.offset, reason))
        self.position = model.Position(self.position.incarnation, entry.offset)
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

    def _notice(self, kind: str, position: model.Position, data: object) -> Iterator[bytes]:
        """A message between events, which are continued behind the position.

        A summary of those before it comes first: a client that continues from the notice would miss it.
        """
        if self.moved:
            yield self._head()
        self.position = position
        yield _written(kind, position, data)


def _gap(first: int, last: int, reason: str) -> pages.Body:
    return {"from": first, "to": last, "reason": reason}


def _written(kind: str, position: model.Position, data: object) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (str(position).encode(), kind.encode(), _encode(data))
