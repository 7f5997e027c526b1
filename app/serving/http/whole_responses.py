"""Runs a WSGI application and returns its response whole."""

import wsgiref.types
from collections.abc import Callable
from typing import NamedTuple


class WholeResponse(NamedTuple):
    """Status line without the version, headers and body."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes


def respond(
    application: wsgiref.types.WSGIApplication, environ: wsgiref.types.WSGIEnvironment
) -> WholeResponse:
    """The response of the application; its errors are raised."""
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start(status: str, headers: list[tuple[str, str]], _: object = None, /) -> Callable[[bytes], object]:
        started.append((status, headers))
        return lambda _: None

    response = application(environ, start)
    try:
        body = b"".join(response)
    finally:
        getattr(response, "close", lambda: None)()
    return WholeResponse(*started[-1], body)
