"""The scheduler's verbs on the web application: before Flask's own routing, which they need nothing of.

Flask would add a tenth of a millisecond to calls that take half of one. Everything else falls through
to Flask.
"""

import http
import wsgiref.types
from collections.abc import Iterable

from app.api import extender

_WITH_NODES = frozenset(("filter", "filter_onlyone", "prioritize", "priority"))
_OK = "200 OK"
_CAME = "topolog.came"


class Mounted:
    """A WSGI application that answers the verbs and hands everything else on."""

    def __init__(
        self,
        inner: wsgiref.types.WSGIApplication,
        verbs: extender.Extender,
        *,
        names_limit: int,
        nodes_limit: int,
    ) -> None:
        self._inner = inner
        self._verbs = verbs
        self._names_limit = names_limit
        self._nodes_limit = nodes_limit

    def limit(self, path: str) -> int:
        """The most bytes that the body of a call to this path of a verb may have."""
        # Whole nodes may take more than names, and which of them it is stands in the body.
        return self._nodes_limit if extender.ROUTES[path] in _WITH_NODES else self._names_limit

    def coming(self, environ: wsgiref.types.WSGIEnvironment) -> None:
        """Prepare for a call to a verb whose head has come, and perhaps not its body."""
        environ[_CAME] = self._verbs.ask(extender.ROUTES[environ["PATH_INFO"]])

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
        with self._verbs.asked(environ.get(_CAME)):
            body = environ["wsgi.input"].read()
            reply = self._verbs.answer(verb, body, names_limit=self._names_limit)
        return self._sent(start, reply)

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
