"""Authorizes every request by the caller's role before it reaches the application.

The check wraps the whole application, so that no view can omit it. It runs as soon as the head of a request
has arrived: before the body is read and before the request gets a thread. The caller's identity is stored in
the environment under ``IDENTITY``.
"""

import dataclasses
import socket
import wsgiref.types
from collections.abc import Callable, Iterable

import structlog

from app.serving.access import roles
from app.serving.http import bodies, conn_metrics

IDENTITY = "topolog.identity"

log = structlog.get_logger(__name__)


def _nothing(_: wsgiref.types.WSGIEnvironment) -> None:
    """Do nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Admission:
    """An authorized call: whether it is a verb of the scheduler, and the size of its body."""

    verb: bool
    length: int


class Middleware:
    """WSGI middleware that authorizes callers.

    `limit` maps the path of a verb to the maximum size of its body in bytes; `on_verb` is called for each
    authorized verb before its body is read.
    """

    def __init__(
        self,
        inner: wsgiref.types.WSGIApplication,
        bindings: roles.RoleBindings,
        limit: Callable[[str], int],
        on_verb: Callable[[wsgiref.types.WSGIEnvironment], None] = _nothing,
    ) -> None:
        self._inner = inner
        self._bindings = bindings
        self._limit = limit
        self._on_verb = on_verb
        self._lines = conn_metrics.LineLimiter()

    def identify(self, sock: socket.socket) -> tuple[str, frozenset[str]]:
        """Return the name and the roles of a client after its handshake."""
        identity = self._bindings.identify({"gunicorn.socket": sock})
        return (identity.name, identity.roles) if identity else ("", frozenset())

    def admit(self, environ: wsgiref.types.WSGIEnvironment) -> Admission | bodies.RequestRefusal:
        """Authorize a request by its head; the refusal has status 401, 403 or 405, or is about the body."""
        path = environ["PATH_INFO"]
        found = self._bindings.authorize(environ, environ["REQUEST_METHOD"], path)
        if isinstance(found, roles.Denied):
            self._denied(found)
            allow = (("Allow", ", ".join(found.allow)),) if found.allow else ()
            return bodies.RequestRefusal(found.status, found.reason_code, found.message, allow)
        environ[IDENTITY] = found
        verb = path in roles.VERB_PATHS
        if verb:
            length = bodies.of_json(environ, self._limit(path))
        else:
            length = bodies.of_any(environ, bodies.QUESTION if path in roles.QUESTIONS else bodies.SMALL)
        if not isinstance(length, int):
            return length
        if verb:
            self._on_verb(environ)
        return Admission(verb, length)

    def __call__(
        self, environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
    ) -> Iterable[bytes]:
        """Respond to a request that was admitted."""
        return self._inner(environ, start)

    def _denied(self, denied: roles.Denied) -> None:
        suppressed = self._lines.due()
        if suppressed is None:
            return
        log.warning(
            "call denied",
            status=denied.status,
            reason=denied.message,
            identity=denied.identity.name if denied.identity else "",
            serial=denied.identity.serial if denied.identity else "",
            suppressed=suppressed,
        )
