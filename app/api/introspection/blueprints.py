"""Wraps flask-smorest: mounts a route with its query, answer and errors, all documented.

flask-smorest has no types: it is called here and in openapi only, so that all other modules are type-checked.
Only the declared fields of an answer are sent, so that the document is complete.
"""

import functools
import http
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import flask
import flask_smorest
import marshmallow as ma
from webargs import flaskparser

from app.api.introspection import moments, queries, schemas

View = TypeVar("View", bound=Callable[..., object])
SchemaClass = type[ma.Schema]
Decorator = Callable[[Callable[..., object]], Callable[..., object]]
ERRORS = (400, 404, 410, 503)
_TEXT = {"schema": {"type": "string"}}
_TAG = {
    "ETag": {
        "description": "Identifies the answer in its encoding. 304 if it is in If-None-Match.",
        **_TEXT,
    }
}
_TAGGED = {
    **_TAG,
    "Content-Encoding": {
        "description": "`gzip`, if Accept-Encoding has it and the answer is large.",
        **_TEXT,
    },
    "Vary": {"description": "`Accept-Encoding`.", **_TEXT},
}


class Blueprint(Protocol):
    """The part of flask_smorest.Blueprint that is used here."""

    ARGUMENTS_PARSER: flaskparser.FlaskParser

    def register(self, app: flask.Flask, options: dict[str, object]) -> None:
        """Mount the views."""
        ...

    def after_request(self, function: Callable[[flask.Response], flask.Response]) -> object:
        """Run for each reply of this blueprint."""
        ...

    def response(self, status: int, schema: object, **more: object) -> Decorator:
        """Serialise and document the answer of a view."""
        ...

    def alt_response(self, status: int, **more: object) -> Decorator:
        """Document another answer."""
        ...

    def arguments(self, schema: SchemaClass, *, location: str) -> Decorator:
        """Parse and document parameters."""
        ...

    def doc(self, **more: object) -> Decorator:
        """Document anything else."""
        ...

    def add_url_rule(
        self, rule: str, endpoint: str | None, view: Callable[..., object], *, methods: Sequence[str]
    ) -> None:
        """Mount a view."""
        ...


class _Parser(flaskparser.FlaskParser):
    DEFAULT_VALIDATION_STATUS = 400


def create(name: str, prefix: str, description: str) -> Blueprint:
    """A group of routes below a prefix; its responses carry the position that they show."""
    blueprint: Blueprint = flask_smorest.Blueprint(name, __name__, url_prefix=prefix, description=description)
    # A misspelt parameter must not be ignored.
    blueprint.ARGUMENTS_PARSER = _Parser(unknown=ma.RAISE)
    blueprint.after_request(moments.stamp)
    return blueprint


def get(
    blueprint: Blueprint,
    path: str,
    answers: SchemaClass,
    *,
    query: SchemaClass = queries.Moment,
    also: Sequence[str] = (),
    example: object = None,
    endpoint: str | None = None,
    dumped: bool = True,
    also_status: Sequence[int] = (),
    tagged: bool = False,
) -> Callable[[View], View]:
    """Mount ``view(query, **path_parameters)`` at GET.

    ``also``: other content types of the answer; ``also_status``: further errors. ``dumped``: serialise by the
    schema; otherwise the answer is sent as it is, for views whose fields are declared elsewhere. ``tagged``:
    the answer has an ETag, may be compressed, and is not sent again to a client that has it (RFC 9110).
    """

    def decorate(view: View) -> View:
        sent = view if dumped else _json(view)
        documented = blueprint.response(200, answers, example=example, headers=_TAGGED if tagged else None)(
            sent
        )
        if tagged:
            documented = _unchanged(blueprint)(documented)
        for kind in also:
            documented = blueprint.alt_response(
                200, schema={"type": "string"}, content_type=kind, success=True
            )(documented)
        described = blueprint.doc(responses=_problems(*ERRORS, *also_status))(documented)
        parsed = blueprint.arguments(query, location="query")(described)
        blueprint.add_url_rule(path, endpoint, parsed, methods=["GET"])
        return view

    return decorate


def stream(
    blueprint: Blueprint,
    path: str,
    *,
    query: SchemaClass,
    content_type: str,
    shape: Mapping[str, object],
    description: str,
) -> Callable[[View], View]:
    """Mount ``view(query)`` at GET: a response that is sent as it is produced.

    ``content_type`` must be one of those that the server streams (fast_path.STREAMS).
    """

    def decorate(view: View) -> View:
        documented = blueprint.response(200, shape, content_type=content_type, description=description)(view)
        described = blueprint.doc(responses=_problems(*ERRORS, 429))(documented)
        parsed = blueprint.arguments(query, location="query")(described)
        blueprint.add_url_rule(path, None, parsed, methods=["GET"])
        return view

    return decorate


def ask(
    blueprint: Blueprint,
    path: str,
    answers: SchemaClass,
    *,
    question: str,
    dumped: bool = True,
    method: str = "POST",
) -> Callable[[View], View]:
    """Mount ``view(query, **path_parameters)`` at POST or PUT.

    It takes a JSON body, whose schema ``question`` names. ``dumped``: serialise by the schema; otherwise the
    answer is sent as it is, and a test has to compare it with the schema.
    """
    shape = {"$ref": f"#/components/schemas/{question}"}

    def decorate(view: View) -> View:
        documented = blueprint.response(200, answers)(view if dumped else _json(view))
        described = blueprint.doc(
            requestBody={"required": True, "content": {"application/json": {"schema": shape}}},
            responses=_problems(*ERRORS, 413, 415, 429),
        )(documented)
        parsed = blueprint.arguments(queries.Empty, location="query")(described)
        blueprint.add_url_rule(path, None, parsed, methods=[method])
        return view

    return decorate


def remove(blueprint: Blueprint, path: str, answers: SchemaClass) -> Callable[[View], View]:
    """Mount ``view(query, **path_parameters)`` at DELETE; it answers with what was deleted."""

    def decorate(view: View) -> View:
        documented = blueprint.response(200, answers)(view)
        described = blueprint.doc(responses=_problems(*ERRORS))(documented)
        parsed = blueprint.arguments(queries.Empty, location="query")(described)
        blueprint.add_url_rule(path, None, parsed, methods=["DELETE"])
        return view

    return decorate


def change(blueprint: Blueprint, path: str, *, query: SchemaClass, body: str) -> Callable[[View], View]:
    """Mount ``view(query, **path_parameters)`` at PUT and POST: a text body, and a sentence as the answer."""
    text = {"schema": {"type": "string"}}

    def decorate(view: View) -> View:
        documented = blueprint.response(
            200,
            {"type": "string"},
            content_type="text/plain",
            description="A sentence: which flag was set to which value.",
        )(view)
        described = blueprint.doc(
            requestBody={"required": True, "description": body, "content": {"text/plain": text}},
            responses=_problems(*ERRORS, 413, 415),
        )(documented)
        parsed = blueprint.arguments(query, location="query")(described)
        blueprint.add_url_rule(path, None, parsed, methods=["PUT", "POST"])
        return view

    return decorate


def _problems(*statuses: int) -> dict[int, object]:
    """What is documented of these errors.

    alt_response does the same for one of them, with a copy of all that is documented of the view, and with
    one more function around it.
    """
    content = {"application/json": {"schema": schemas.Problem}}
    return {
        status: {"description": http.HTTPStatus(status).phrase, "content": content} for status in statuses
    }


def _unchanged(blueprint: Blueprint) -> Decorator:
    return blueprint.alt_response(
        304, description="The answer that the client has is still the answer.", headers=_TAG, success=True
    )


def _json(view: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(view)
    def wrapper(*args: object, **parameters: object) -> flask.Response:
        return flask.jsonify(view(*args, **parameters))

    return wrapper
