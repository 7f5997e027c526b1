"""Mounts the scheduler's verbs in front of Flask, whose routing they do not need.

Flask would add a tenth of a millisecond to calls that take half of one. All other paths fall through to
Flask.
"""

import http
import wsgiref.types
from collections.abc import Iterable

from app.api.extender import verb_handlers

_WITH_OBJECTS = frozenset(("filter", "filter_onlyone", "prioritize", "priority", "preempt"))
_OK = "200 OK"
_TICKET = "topolog.ticket"


class Mounted:
    """A WSGI application that answers the verbs and passes everything else on."""

    def __init__(
        self,
        inner: wsgiref.types.WSGIApplication,
        verbs: verb_handlers.Extender,
        *,
        names_limit: int,
        nodes_limit: int,
    ) -> None:
        self._inner = inner
        self._verbs = verbs
        self._names_limit = names_limit
        self._nodes_limit = nodes_limit

    def limit(self, path: str) -> int:
        """The maximum size of a request body in bytes; ``path`` is that of a verb."""
        # Whole nodes or pods take more than names, and only the body shows which of them are sent.
        return self._nodes_limit if verb_handlers.ROUTES[path] in _WITH_OBJECTS else self._names_limit

    def coming(self, environ: wsgiref.types.WSGIEnvironment) -> None:
        """Prepare for a call to a verb whose head has arrived; its body may still be under way."""
        environ[_TICKET] = self._verbs.request(verb_handlers.ROUTES[environ["PATH_INFO"]])

    def __call__(
        self, environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
    ) -> Iterable[bytes]:
        """Answer a verb, or let Flask answer."""
        verb = verb_handlers.ROUTES.get(environ["PATH_INFO"])
        if verb is None:
            return self._inner(environ, start)
        if environ["REQUEST_METHOD"] != "POST":
            wrong = verb_handlers.problem(405, "MethodNotAllowed", f"{verb} is called with POST")
            return self._sent(start, wrong, (("Allow", "POST"),))
        with self._verbs.prefetch(environ.get(_TICKET)):
            body = environ["wsgi.input"].read()
            reply = self._verbs.answer(verb, body, names_limit=self._names_limit)
        return self._sent(start, reply)

    def _sent(
        self,
        start: wsgiref.types.StartResponse,
        reply: verb_handlers.Reply,
        also: tuple[tuple[str, str], ...] = (),
    ) -> Iterable[bytes]:
        status = _OK if reply.status == 200 else f"{reply.status} {http.HTTPStatus(reply.status).phrase}"
        length = ("Content-Length", str(len(reply.body)))
        start(status, [("Content-Type", "application/json"), length, *self._verbs.headers(reply), *also])
        return (reply.body,)
