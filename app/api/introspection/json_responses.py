"""Encodes the JSON of the REST API in one step, without a second copy of the answer as text."""

from collections.abc import Mapping

import flask
import msgspec
from flask.json import provider

from app.api import errors

MOST_BYTES = 4 * 1024**2
"""Bytes of an answer: several are made at once, and each is held until its client has read it. A list of one
item may have more: no smaller question has it."""
_encode = msgspec.json.Encoder(order="sorted").encode


def encoded(body: object) -> bytes:
    """The JSON of an answer. Raises Problem 400 above MOST_BYTES, but for a list of one item."""
    found = _encode(body)
    if len(found) > MOST_BYTES and not _is_one_item(body):
        raise errors.Problem(
            400,
            "TooMuch",
            f"the answer has {len(found)} bytes, and at most {MOST_BYTES} are sent:"
            " ask for fewer items, or about a part of them",
        )
    return found


def _is_one_item(body: object) -> bool:
    items = body.get("items") if isinstance(body, Mapping) else None
    return isinstance(items, list) and len(items) == 1


class Json(provider.JSONProvider):
    """Flask's JSON by msgspec: a page of a thousand rows takes its own size, not several times that."""

    def dumps(self, obj: object, **_: object) -> str:
        """The JSON as text."""
        return _encode(obj).decode()

    def loads(self, s: str | bytes, **_: object) -> object:
        """The value of a JSON text; raises ValueError."""
        return msgspec.json.decode(s)

    def response(self, *args: object, **kwargs: object) -> flask.Response:
        """The response with one value, or with an object of the named values. Raises Problem 400."""
        body = encoded(self._prepare_response_obj(args, kwargs)) + b"\n"
        return flask.Response(body, mimetype="application/json")
