"""The events of the log, in order."""

import flask
import msgspec
from marshmallow import Schema

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, schemas, services, times
from app.domain import event_subjects, events, model
from app.store import errors as store_errors
from app.store.log import readers
from app.store.state import histories

routes = blueprints.create("events", "/apis/v1", "The events of the log, in order.")
_WINDOW = 5000
"""Offsets scanned for one page; a page may be short, and ``continue`` leads to the events after them."""


class Event(Schema):
    """One entry of the log."""

    offset = schemas.number("Offset in the log.")
    at = schemas.text("When it was appended (RFC 3339).")
    type = schemas.text("Event type.")
    object = schemas.text(
        "The subject: pod:UID, node:NAME, flag:LETTER, shadow:NAME, kind:KIND, relist:KIND, store:ASPECT, or"
        " that of a declared kind, such as policy:NS/NAME."
    )
    name = schemas.text("The name of the subject.")
    data = schemas.anything("The event's fields.")


@blueprints.get(routes, "/events", schemas.page_of(Event), query=queries.Events)
def listing(query: pages.Query) -> pages.Body:
    """The events from one moment to another, oldest first."""
    moment = moments.take(query.get("at") or moments.NOW)
    last = min(moment.snapshot.offset, _end(query.get("to"), moment))
    cursor = pages.read(query)
    since = _begin(query.get("from_")) if cursor is None else _following(cursor)
    try:
        found, behind = _window(query, since, last)
    except store_errors.Trimmed as trimmed:
        if query.get("from_") is not None or cursor is not None:
            raise
        found, behind = _window(query, trimmed.oldest, last)
    items, others = pages.filled(shown(entry) for entry in found)
    if others:
        behind = found[len(items)].offset
    following = pages.Cursor(
        flask.request.path, moment.position.incarnation, moment.position.offset, index=behind
    )
    metadata = pages.metadata(moment, following if behind <= last else None, 0 if behind > last else None)
    return {"items": items, "metadata": metadata}


def _window(query: pages.Query, since: int, last: int) -> histories.Part:
    """The entries of the page, and the offset at which the next page begins."""
    end = min(last, since + _WINDOW - 1)
    if end < since:
        return histories.Part([], last + 1)
    subject = subject_of(query)
    named = subject is not None and subject.startswith("pod:") and "/" in subject
    name = str(subject).removeprefix("pod:")
    return services.current().histories.part(
        since,
        end,
        kind=query.get("type"),
        subject=None if named else subject,
        wanted=(lambda entry: name in _names(entry.event)) if named else None,
        limit=int(query["limit"]),
        most_bytes=pages.PAGE_BYTES,
    )


def _begin(at: moments.At | None) -> int:
    if at is None:
        return 1
    if at.time_ms is not None:
        return services.current().histories.offset_at(moments.reached(at.time_ms, "from") - 1) + 1
    return max(1, moments.offset(at, "from"))


def _following(cursor: pages.Cursor) -> int:
    """The offset of the next page; raises Superseded if it is one of another incarnation."""
    services.current().histories.check(cursor.incarnation)
    return cursor.index


def _end(at: moments.At | None, shown: moments.Moment) -> int:
    return shown.snapshot.offset if at is None else moments.offset(at, "to")


def shown(entry: readers.Entry) -> pages.Body:
    """An entry of the log as every role may see it."""
    data = msgspec.json.decode(msgspec.json.encode(entry.event))  # Raw parts are JSON already.
    kind = data.pop("type")
    return {
        "offset": entry.offset,
        "at": times.rfc3339(entry.at_ms / 1000),
        "type": kind,
        "object": entry.event.subject,
        "name": _names(entry.event)[0],
        "data": data,
    }


def subject_of(query: pages.Query) -> str | None:
    """The subject of the parameter ``object``, as events spell it. Raises Problem 400 if none begins so."""
    asked = query.get("object")
    if asked is None:
        return None
    snapshot = services.current().follower.snapshot
    schema = snapshot.schema
    found = schema.spelled(str(asked))
    kind = found.partition(":")[0]
    if kind not in schema.prefixes and kind not in snapshot.objects.kinds:
        known = ", ".join(sorted(schema.prefixes))
        raise errors.bad(f"object: no event is about {kind[:80]!r}: a subject begins with one of {known}")
    return found


def about(event: events.AnyEvent, subject: str) -> bool:
    """Whether the event is about a subject; pods also by pod:NAMESPACE/NAME."""
    if subject.startswith("pod:") and "/" in subject:
        return subject.removeprefix("pod:") in _names(event)
    return subject in event_subjects.touched(event)


def within(event: events.AnyEvent, namespace: str) -> bool:
    """Whether the event is about an object of a namespace."""
    return any(name.startswith(f"{namespace}/") for name in _names(event))


def _names(event: events.AnyEvent) -> list[model.NamespacedName]:
    match event:
        case events.PodSeen():
            return [event.pod.key]
        case events.PlacementsCommitted():
            return [placement.pod.key for placement in event.placements]
        case events.PodGone() | events.PlacementReleased():
            return [f"{event.namespace}/{event.name}"]
        case _:
            return [event.subject.partition(":")[2]]
