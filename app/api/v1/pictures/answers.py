"""Answers at a resolved position: the same question there has the same bytes, one ETag, and is kept."""

import gzip
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import flask
from marshmallow import Schema

from app.api import errors
from app.api.introspection import json_responses, moments, pages, schemas, services, times
from app.domain import snapshots
from app.framework import views

MOST_EVENTS = 200_000
"""Events of one window at most."""
_WORTH_BYTES = 1400
"""A smaller answer fits into one packet as it is."""
_LEVEL = 1
"""The fastest: half a millisecond for the names of 5,000 nodes."""


class Shown(Schema):
    """The position that a picture shows."""

    position = schemas.text("The position shown, INCARNATION/OFFSET.")
    asOf = schemas.text("When its latest event was appended (RFC 3339); empty before the first.")


class WindowShown(Shown):
    """The range that a picture shows."""

    first = schemas.number("The offset that the window begins at.")
    last = schemas.number("The offset that it ends at.")


def shown(moment: moments.Moment) -> pages.Body:
    """The metadata of a picture; the age is in X-Topolog-Age, because it changes with each request."""
    return {"position": str(moment.position), "asOf": _appended(moment.snapshot)}


def _appended(snapshot: snapshots.Snapshot) -> str:
    given = services.current()
    latest, at_ms = given.follower.dated()
    if latest.position != snapshot.position:
        at_ms = given.histories.appended_ms(snapshot.offset) if snapshot.offset else None
    return times.rfc3339(at_ms / 1000) if at_ms is not None else ""


def respond(
    moment: moments.Moment, compute: Callable[[], Mapping[str, object]], *, heavy: bool = False
) -> flask.Response:
    """The answer to the present question at the moment. Raises Problem 400 or 429.

    ``heavy``: compute it in turn with the other heavy questions.
    """
    given, asked = services.current(), flask.request
    query = tuple(sorted((name, value) for name, value in asked.args.items(multi=True) if name != "at"))
    turn = given.turns.admitted() if heavy else None
    question = asked.path, query, moment.position
    body = given.answers.get(question, lambda: json_responses.encoded(compute()), turn)
    return tagged(body)


def encoded(body: Mapping[str, object]) -> flask.Response:
    """An answer that does not follow from the position alone. Raises Problem 400."""
    return tagged(json_responses.encoded(body))


def tagged(body: bytes) -> flask.Response:
    """The JSON with its ETag, or 304 if the client has it; compressed if the client takes that."""
    zipped = len(body) > _WORTH_BYTES and flask.request.accept_encodings.quality("gzip") > 0
    response = flask.Response(body + b"\n", mimetype="application/json")
    # Each encoding has an ETag of its own (RFC 9110, 8.8.3.3).
    response.set_etag(hashlib.sha256(body).hexdigest()[:24] + ("-gzip" if zipped else ""))
    response.headers["Cache-Control"] = "no-cache"
    response.headers["Vary"] = "Accept-Encoding"
    response.make_conditional(flask.request)
    if zipped and response.status_code == 200:
        response.set_data(gzip.compress(response.get_data(), _LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response


class Window(NamedTuple):
    """A range of offsets, and the moment of its end."""

    first: int
    last: int
    end: moments.Moment


def window(query: pages.Query, *, usual: int, most: int | None = None) -> Window:
    """The window of ``from`` and ``to``; without ``from`` the last ``usual`` events.

    Raises Problem 400 or 410, or a StoreError.
    """
    first, end = moments.span(query.get("from_"), query.get("to") or moments.NOW)
    last = end.snapshot.offset
    if first is None:
        first = services.current().histories.reachable(last - usual, needed=False)
    if last - first > (most := most or MOST_EVENTS):
        raise errors.Problem(
            400, "TooMuch", f"from: the window has {last - first} events; at most {most} are read at once"
        )
    return Window(first, last, end)


def ranged(found: Window) -> pages.Body:
    """The metadata of a window."""
    return {**shown(found.end), "first": found.first, "last": found.last}


def windowed(found: Window, compute: Callable[[], Mapping[str, object]]) -> flask.Response:
    """As ``respond`` at the end of a window, in turn with the other heavy questions.

    The oldest offset that can still be shown is in X-Topolog-Oldest: a trim changes it, and not the answer.
    While the archive is away, it is that of the store.
    """
    response = respond(found.end, compute, heavy=True)
    response.headers["X-Topolog-Oldest"] = str(services.current().histories.reachable(needed=False))
    return response


def counts_of(
    snapshot: snapshots.Snapshot, of: str = ""
) -> list[Mapping[str, Callable[[str], Iterable[views.DomainCount]]]]:
    """For each plugin: label key -> (value -> counts of the domain), of one object or, if empty, of all."""
    plugins = services.current().registry
    return [one.domain_counts(snapshot, of) for one in plugins.shown.values()]
