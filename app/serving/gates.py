"""The door: nobody reaches a route without the role that it needs.

Stands before the whole application, so that no view can forget to ask, and is asked as soon as the head of a
request is there: before its body is read, and before it gets a thread. Who was let in is left in the
environment under ``IDENTITY``, for the audit.
"""

import dataclasses
import wsgiref.types
from collections.abc import Callable, Iterable

import structlog

from app.serving import bodies, identities, metering

IDENTITY = "topolog.identity"

log = structlog.get_logger(__name__)


def _nothing(_: wsgiref.types.WSGIEnvironment) -> None:
    """Do nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Admission:
    """A call that may be made: whether it is a verb of the scheduler, and the size of its body."""

    verb: bool
    length: int


class Gate:
    """A WSGI application, and who may call it.

    `limit` returns the most bytes that the body of a verb, called by its path, may have; `coming` is called
    for each verb that is let in, before its body is read.
    """

    def __init__(
        self,
        inner: wsgiref.types.WSGIApplication,
        roster: identities.Roster,
        limit: Callable[[str], int],
        coming: Callable[[wsgiref.types.WSGIEnvironment], None] = _nothing,
    ) -> None:
        self._inner = inner
        self._roster = roster
        self._limit = limit
        self._coming = coming
        self._lines = metering.Sparse()

    def admit(self, environ: wsgiref.types.WSGIEnvironment) -> Admission | bodies.Refusal:
        """Judge a request by its head; 401, 403 or 405 for a caller that may not make it."""
        path = environ["PATH_INFO"]
        found = self._roster.authorize(environ, environ["REQUEST_METHOD"], path)
        if isinstance(found, identities.Denied):
            self._denied(found)
            allow = (("Allow", ", ".join(found.allow)),) if found.allow else ()
            return bodies.Refusal(found.status, found.reason_code, found.message, allow)
        environ[IDENTITY] = found
        verb = path in identities.VERB_PATHS
        length = bodies.of_json(environ, self._limit(path)) if verb else bodies.of_any(environ)
        if not isinstance(length, int):
            return length
        if verb:
            self._coming(environ)
        return Admission(verb, length)

    def __call__(
        self, environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
    ) -> Iterable[bytes]:
        """Answer a request that was admitted."""
        return self._inner(environ, start)

    def _denied(self, denied: identities.Denied) -> None:
        unlogged = self._lines.due()
        if unlogged is None:
            return
        log.warning(
            "call denied",
            status=denied.status,
            reason=denied.message,
            identity=denied.identity.name if denied.identity else "",
            serial=denied.identity.serial if denied.identity else "",
            unlogged=unlogged,
        )
