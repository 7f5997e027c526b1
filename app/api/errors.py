"""Every error of the HTTP surface: {"message", "reasonCode"} and the right status.

Nothing a caller sends may end in a 5xx; 503 speaks of the store, never of the request.
"""

from collections.abc import Callable

import flask
from werkzeug import exceptions

from app.store import errors as store_errors


class Problem(Exception):
    """An answer other than the one asked for; ``message`` says what, where and what to do."""

    def __init__(self, status: int, reason_code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason_code = reason_code
        self.message = message


def bad(message: str) -> Problem:
    """400: the request cannot be understood."""
    return Problem(400, "BadRequest", message)


def missing(kind: str, name: str) -> Problem:
    """404: one rule for every unknown object (koordinator-api.md 1 has three)."""
    return Problem(404, "NotFound", f"cannot find {kind} {name}")


_LONGEST_PATH = 200
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
    """The JSON answer of a problem."""
    response = flask.jsonify(message=problem.message, reasonCode=problem.reason_code)
    response.status_code = problem.status
    if problem.status in (429, 503):
        response.headers["Retry-After"] = "1"
    return response


def from_store(error: store_errors.StoreError) -> Problem:
    """What the store's complaint means to somebody who only asked."""
    match error:
        case store_errors.Trimmed():
            return Problem(
                410, "PositionTrimmed", f"that position is no longer kept; the oldest one is {error.oldest}"
            )
        case store_errors.Superseded():
            return Problem(410, "PositionGone", f"{error}")
        case store_errors.Shortened():
            return Problem(410, "RecordShortened", f"{error}")
        case store_errors.Beyond():
            return bad(f"{error}")
        case store_errors.Busy():
            return Problem(429, "TooManyRequests", f"{error}; try again")
        case store_errors.StoreAway():
            return Problem(503, "StoreAway", f"the store is away: {error}; try again")
        case store_errors.Rewound() | store_errors.Gap():
            return Problem(503, "StoreRewound", f"the log is not the one that was followed so far: {error}")
        case _:
            return Problem(503, "StoreRefused", f"the store refused: {error}")


def from_http(error: exceptions.HTTPException) -> Problem:
    """What werkzeug and webargs raise, in our words."""
    status = error.code or 500
    data = getattr(error, "data", None)
    if isinstance(data, dict) and "messages" in data:
        return bad(_validation(data["messages"]))
    reason = _REASONS.get(status, "InternalError" if status >= 500 else "BadRequest")
    if status == 404:
        path = flask.request.path[:_LONGEST_PATH]
        return Problem(404, reason, f"there is no {path}; /openapi.json and /docs show what there is")
    return Problem(status, reason, error.description or error.name)


def register(app: flask.Flask, *, stamp: Callable[[flask.Response], flask.Response]) -> None:
    """Answer every error in the one shape; ``stamp`` adds the headers where no view was reached."""

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
        # webargs names the location (query) first; a caller knows what it sent.
        return "; ".join(
            _validation(inner, key if not path or path == "query" else f"{path}.{key}")
            for key, inner in sorted(messages.items(), key=lambda item: str(item[0]))
        )
    if isinstance(messages, list):
        return f"{path}: {' '.join(str(message) for message in messages)}"
    return f"{path}: {messages}"
