"""The door: nobody reaches a route without the role that it needs.

Stands before the whole application, so that no view can forget to ask. Who was let in is left in the
environment under ``IDENTITY``, for the audit.
"""

import http
import json
import wsgiref.types
from collections.abc import Iterable

import structlog

from app.serving import identities

IDENTITY = "topolog.identity"

log = structlog.get_logger(__name__)


class Gate:
    """A WSGI application that asks the roster first."""

    def __init__(self, inner: wsgiref.types.WSGIApplication, roster: identities.Roster) -> None:
        self._inner = inner
        self._roster = roster

    def __call__(
        self, environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
    ) -> Iterable[bytes]:
        """Let the call pass or answer it with 401, 403 or 405."""
        found = self._roster.authorize(environ, environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if isinstance(found, identities.Identity):
            environ[IDENTITY] = found
            return self._inner(environ, start)
        log.warning(
            "call denied",
            status=found.status,
            reason=found.message,
            identity=found.identity.name if found.identity else "",
            serial=found.identity.serial if found.identity else "",
        )
        status = http.HTTPStatus(found.status)
        body = json.dumps({"message": found.message, "reasonCode": found.reason_code}).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if found.allow:
            headers.append(("Allow", ", ".join(found.allow)))
        start(f"{status.value} {status.phrase}", headers)
        return [body]
