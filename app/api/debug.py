"""/debug/flags/{s,f,v,d}: read with GET, set with PUT or POST, for every process at once.

Setting appends a FlagSet event: the audit and the change are one, so a flag that cannot be recorded
is not changed (503).
"""

import flask

from app.api import blueprints, errors, moments, pages, queries, services, times
from app.api.v1 import flags
from app.domain import events, model
from app.store import logs

routes = blueprints.create("debug", "/debug/flags", "Debug flags: what is shown, never what is decided.")
_LONGEST_BODY = 1024
_LONGEST_TTL = 7 * 24 * 3600


@blueprints.get(routes, "/<letter>", flags.Flag, query=queries.Empty)
def read(_: pages.Query, letter: str) -> pages.Body:
    """One debug flag as it is now."""
    return flags.present(moments.take().snapshot, _kind(letter))


@blueprints.change(routes, "/<letter>", query=queries.Flag, body="The value, such as 100 or true.")
def change(query: pages.Query, letter: str) -> flask.Response:
    """Set one debug flag, in every process of every replica."""
    kind = _kind(letter)
    text = _body()
    try:
        value = kind.parse(text)
    except ValueError as error:
        raise errors.Problem(400, "BadRequest", f"failed set {kind.title} {text[:100]!r}: {error}") from error
    given = services.current()
    flag = model.Flag(
        name=kind.letter, value=value, pod=query.get("pod", ""), until=_until(query.get("ttl", ""))
    )
    given.log.append(logs.Batch(events=(events.FlagSet(flag=flag, by=given.identity()),)))
    # Read what was written: the reply's position is one at which the flag is set.
    moments.take()
    response = flask.Response(f"successfully set {kind.title} to {text}\n", mimetype="text/plain")
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _kind(letter: str) -> flags.Kind:
    kind = flags.KINDS.get(letter)
    if kind is None:
        raise errors.Problem(
            404, "NotFound", f"there is no debug flag {letter}; there are {', '.join(flags.KINDS)}"
        )
    return kind


def _body() -> str:
    """The request's body, whatever content type curl gave it; raises Problem 400, 413 or 415."""
    request = flask.request
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise errors.Problem(415, "UnsupportedMediaType", "send the value as it is, without Content-Encoding")
    request.max_content_length = _LONGEST_BODY
    raw = request.get_data(cache=False)
    if len(raw) > _LONGEST_BODY:
        raise errors.Problem(413, "BodyTooLarge", f"a value has at most {_LONGEST_BODY} bytes")
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise errors.bad("the body is no UTF-8 text") from error


def _until(ttl: str) -> str:
    if not ttl:
        return ""
    try:
        seconds = times.seconds(ttl)
    except ValueError as error:
        raise errors.bad(f"ttl: {error}") from error
    if not 0 < seconds <= _LONGEST_TTL:
        raise errors.bad("ttl: must be more than 0 and at most 168h")
    return times.rfc3339(services.current().wall() + seconds)
