"""A response of a WSGI application that is read whole."""

import wsgiref.types
from collections.abc import Iterator

import pytest

from app.serving import probe_server
from app.serving.http import whole_responses


class Parts:
    """The parts of a body, the last of which may fail."""

    def __init__(self, *parts: bytes | Exception) -> None:
        self._parts = parts
        self.closed = False

    def __call__(self, _: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> "Parts":
        start("200 OK", [("Content-Type", "text/plain")])
        return self

    def __iter__(self) -> Iterator[bytes]:
        for one in self._parts:
            if isinstance(one, Exception):
                raise one
            yield one

    def close(self) -> None:
        self.closed = True


def test_the_parts_of_the_body_are_joined_and_closed() -> None:
    application = Parts(b"a", b"b")
    assert whole_responses.respond(application, {}) == ("200 OK", [("Content-Type", "text/plain")], b"ab")
    assert application.closed


def test_a_body_that_fails_is_closed() -> None:
    application = Parts(b"a", OSError("full"))
    with pytest.raises(OSError, match="full"):
        whole_responses.respond(application, {})
    assert application.closed


def test_the_server_of_probes_closes_the_body() -> None:
    application = Parts(b"ok")
    assert probe_server.respond(application, b"GET /livez HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\nok")
    assert application.closed
