"""Errors of the HTTP surface: a status, and {"message", "reasonCode"} as JSON.

No request may cause a 5xx by its content; 503 means that the process cannot answer now, and
the reason code names why.
"""

from collections.abc import Callable

import flask
import msgspec
from werkzeug import exceptions

from app.store import errors as store_errors

HUNG_UP = 499
"""The status of a request whose client has closed the connection, as in nginx; it is sent to no one."""


class Problem(Exception):
    """An error answer; ``message``: what is wrong, where, and what to do."""

    def __init__(self, status: int, reason_code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason_code = reason_code
        self.message = message


def bad(message: str) -> Problem:
    """400: the request is invalid."""
    return Problem(400, "BadRequest", message)


def missing(kind: str, name: str) -> Problem:
    """404, in one form for all kinds of objects; with the position, if a moment was asked for."""
    moment = flask.g.get("moment") if "at" in flask.request.args else None
    where = "" if moment is None else f" at {moment.position}"
    if moment is not None and not moment.position.offset:
        where += ", before the first event of the log"
    return Problem(404, "NotFound", f"cannot find {kind} {name}{where}")


def elsewhere(path: str) -> Problem:
    """404: a path of the extender, requested from the view."""
    return Problem(404, "NotFound", f"{path[:_MAX_PATH]} is answered by the extender, not by topolog view")


def encoded(problem: Problem) -> bytes:
    """The JSON of a problem."""
    return msgspec.json.encode({"message": problem.message, "reasonCode": problem.reason_code})


_MAX_PATH = 200
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    408: "Timeout",
    410: "PositionGone",
    411: "LengthRequired",
    413: "BodyTooLarge",
    414: "PathTooLong",
    415: "UnsupportedMediaType",
    422: "BadRequest",
    429: "TooManyRequests",
    431: "HeadersTooLarge",
    503: "Unavailable",
}


def reply(problem: Problem) -> flask.Response:
    """The JSON response of a problem."""
    response = flask.Response(encoded(problem) + b"\n", problem.status, mimetype="application/json")
    if problem.status in (429, 503):
        response.headers["Retry-After"] = "1"
    return response


def from_store(error: store_errors.StoreError) -> Problem:
    """The problem document for an error of the store."""
    match error:
        case store_errors.Trimmed():
            return Problem(
                410,
                "PositionTrimmed",
                f"that position is no longer kept; the oldest offset is {error.oldest}",
            )
        case store_errors.Superseded():
            return Problem(410, "PositionGone", f"{error}")
        case store_errors.Shortened():
            return Problem(410, "RecordShortened", f"{error}")
        case store_errors.Beyond():
            return bad(f"{error}")
        case store_errors.Busy():
            return Problem(429, "TooManyRequests", f"{error}; try again")
        case store_errors.Behind():
            return Problem(503, "Behind", f"this process has not read the log to its end: {error}; try again")
        case store_errors.ArchiveAway():
            return Problem(503, "ArchiveAway", f"the archive is away: {error}; try again")
        case store_errors.StoreAway():
            return Problem(503, "StoreAway", f"the store is away: {store_errors.cause(error)}; try again")
        case store_errors.Rewound() | store_errors.Gap():
            text = f"the log differs from the one followed so far: {error}"
            return Problem(503, "StoreRewound", text)
        case _:
            return Problem(503, "StoreRefused", f"the store refused the call: {error}")


def from_http(error: exceptions.HTTPException) -> Problem:
    """The problem for an exception of werkzeug or webargs."""
    status = error.code or 500
    data = getattr(error, "data", None)
    if isinstance(data, dict) and "messages" in data:
        return bad(_validation(data["messages"]))
    reason = _REASONS.get(status, "InternalError" if status >= 500 else "BadRequest")
    if status == 404:
        path = flask.request.path[:_MAX_PATH]
        return Problem(404, reason, f"no such path: {path}; see /openapi.json or /docs")
    return Problem(status, reason, error.description or error.name)


def register(app: flask.Flask, *, stamp: Callable[[flask.Response], flask.Response]) -> None:
    """Answer every error in one form; ``stamp`` adds the headers where no view was reached."""

    def http(error: exceptions.HTTPException) -> flask.Response:
        if error.response is not None:
            return flask.make_response(error.response)
        response = reply(from_http(error))
        for name, value in error.get_headers(flask.request.environ):
            if name in ("Allow", "Retry-After"):
                response.headers[name] = value
        return stamp(response)

    app.register_error_handler(Problem, reply)
    app.register_error_handler(store_errors.StoreError, lambda error: reply(from_store(error)))
    app.register_error_handler(exceptions.HTTPException, http)


def _validation(messages: object, path: str = "") -> str:
    """marshmallow's nested messages as one sentence: ``limit: must be ...; at: ...``."""
    if isinstance(messages, dict):
        # webargs names the location (query) first, which adds nothing for the caller.
        return "; ".join(
            _validation(inner, key if not path or path == "query" else f"{path}.{key}")
            for key, inner in sorted(messages.items(), key=lambda item: str(item[0]))
        )
    if isinstance(messages, list):
        return f"{path}: {' '.join(str(message) for message in messages)}"
    return f"{path}: {messages}"
