"""/debug/flags/{s,f,v,d}: reads a debug flag with GET, sets it for every process with PUT or POST.

A change is a FlagSet event in the log, which is its audit record too: a flag that cannot be recorded is not
changed (503).
"""

import flask

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, services, times
from app.api.v1 import flags
from app.domain import events, model
from app.store.log import batches

routes = blueprints.create("debug", "/debug/flags", "Debug flags: what is logged, never what is decided.")
_MAX_BODY = 1024
_MAX_TTL = 7 * 24 * 3600


@blueprints.get(routes, "/<letter>", flags.Flag, query=queries.Empty)
def read(_: pages.Query, letter: str) -> pages.Body:
    """One debug flag."""
    return flags.present(moments.take(), _kind(letter))


@blueprints.change(routes, "/<letter>", query=queries.Flag, body="The value, such as 100 or true.")
def change(query: pages.Query, letter: str) -> flask.Response:
    """Set one debug flag, in every process of every replica."""
    kind = _kind(letter)
    text = _body()
    try:
        value = kind.parse(text)
    except ValueError as error:
        raise errors.bad(f"cannot set {kind.title} to {text[:100]!r}: {error}") from error
    given = services.current()
    flag = model.Flag(
        name=kind.letter, value=value, pod=query.get("pod", ""), until=_until(query.get("ttl", ""))
    )
    given.log.append(batches.Batch(events=(events.FlagSet(flag=flag, by=given.identity()),)))
    # Catch up: the response shows a position at which the flag is set.
    moments.take()
    response = flask.Response(f"successfully set {kind.title} to {text}\n", mimetype="text/plain")
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _kind(letter: str) -> flags.FlagKind:
    kind = flags.KINDS.get(letter)
    if kind is None:
        raise errors.Problem(
            404, "NotFound", f"no such debug flag: {letter}; the flags are {', '.join(flags.KINDS)}"
        )
    return kind


def _body() -> str:
    """The request's body, of any content type; raises Problem 400, 413 or 415."""
    request = flask.request
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise errors.Problem(415, "UnsupportedMediaType", "send the value without Content-Encoding")
    raw = request.get_data(cache=False)
    if len(raw) > _MAX_BODY:
        raise errors.Problem(413, "BodyTooLarge", f"the value is larger than {_MAX_BODY} bytes")
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise errors.bad("the body is not UTF-8 text") from error


def _until(ttl: str) -> str:
    if not ttl:
        return ""
    try:
        seconds = times.seconds(ttl)
    except ValueError as error:
        raise errors.bad(f"ttl: {error}") from error
    if not 0 < seconds <= _MAX_TTL:
        raise errors.bad("ttl: must be more than 0 and at most 168h")
    return times.rfc3339(services.current().wall() + seconds)
