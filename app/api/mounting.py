"""The scheduler's verbs on the web application: before Flask's own routing, which they need nothing of.

Flask would add a tenth of a millisecond to calls that take half of one. Everything else falls through
to Flask.
"""

import http
import wsgiref.types
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from app.api import extender


class Refusal(Protocol):
    """Why a body is not taken (serving.bodies.Refusal)."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def reason_code(self) -> str:
        """For programs."""
        ...

    @property
    def message(self) -> str:
        """For people."""
        ...


Read = Callable[[wsgiref.types.WSGIEnvironment, int], bytes | Refusal]
Pass = Callable[[wsgiref.types.WSGIEnvironment], AbstractContextManager[Refusal | None]]

_WITH_NODES = frozenset(("filter", "filter_onlyone", "prioritize", "priority"))
_OK = "200 OK"


class Mounted:
    """A WSGI application that answers the verbs and hands everything else on."""

    def __init__(
        self,
        inner: wsgiref.types.WSGIApplication,
        verbs: extender.Extender,
        *,
        read: Read,
        passing: Pass,
        names_limit: int,
        nodes_limit: int,
    ) -> None:
        """``read`` takes a body of at most so many bytes; ``passing`` holds a place for a large one."""
        self._inner = inner
        self._verbs = verbs
        self._read = read
        self._passing = passing
        self._names_limit = names_limit
        self._nodes_limit = nodes_limit

    def __call__(
        self, environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
    ) -> Iterable[bytes]:
        """Answer a verb, or let Flask answer."""
        verb = extender.ROUTES.get(environ["PATH_INFO"])
        if verb is None:
            return self._inner(environ, start)
        if environ["REQUEST_METHOD"] != "POST":
            wrong = extender.problem(405, "MethodNotAllowed", f"{verb} is called with POST")
            return self._sent(start, wrong, (("Allow", "POST"),))
        with self._passing(environ) as crowded:
            reply = self._refused(crowded) if crowded is not None else self._answer(verb, environ)
        return self._sent(start, reply)

    def _answer(self, verb: str, environ: wsgiref.types.WSGIEnvironment) -> extender.Reply:
        limit = self._nodes_limit if verb in _WITH_NODES else self._names_limit
        with self._verbs.asking(verb):
            body = self._read(environ, limit)
            if not isinstance(body, bytes):
                return self._refused(body)
            # Whole nodes may take more than names, and which of them it is stands in the body.
            return self._verbs.answer(verb, body, names_limit=self._names_limit)

    @staticmethod
    def _refused(refusal: Refusal) -> extender.Reply:
        return extender.problem(refusal.status, refusal.reason_code, refusal.message)

    def _sent(
        self,
        start: wsgiref.types.StartResponse,
        reply: extender.Reply,
        also: tuple[tuple[str, str], ...] = (),
    ) -> Iterable[bytes]:
        status = _OK if reply.status == 200 else f"{reply.status} {http.HTTPStatus(reply.status).phrase}"
        length = ("Content-Length", str(len(reply.body)))
        start(status, [("Content-Type", "application/json"), length, *self._verbs.headers(reply), *also])
        return (reply.body,)
