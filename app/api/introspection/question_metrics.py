"""Counts the hypothetical questions of a process, and measures how long their answers take."""

from time import perf_counter

import flask

from app.api import errors
from app.telemetry import questions

_PREFIX = "/apis/v1/"


def install(app: flask.Flask) -> None:
    """Count the questions that the application answers."""
    app.before_request(_begin)
    app.after_request(_count)


def _begin() -> None:
    flask.g.question_begun = perf_counter()


def _count(response: flask.Response) -> flask.Response:
    request = flask.request
    kind = request.path.removeprefix(_PREFIX)
    if request.method == "POST" and kind in questions.KINDS:
        found = outcome(response.status_code)
        questions.ASKED.labels(kind, found).inc()
        if found == "answered":
            questions.SECONDS.labels(kind).observe(perf_counter() - flask.g.question_begun)
    return response


def outcome(status: int) -> str:
    """The outcome that a status is."""
    if status < 300:
        return "answered"
    if status == 429:
        return "busy"
    if status == errors.HUNG_UP:
        return "abandoned"
    return "refused" if status < 500 else "failed"
