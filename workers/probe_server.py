"""Serves the health port of a worker: /livez, /readyz and /metrics, in plain HTTP.

The answers are those of the extender, without its web code. /livez depends on nothing outside the process
and fails once a required thread has died; /readyz names each check and its problem.
"""

import contextlib
import functools
import http
import socketserver
import threading
import wsgiref.simple_server
import wsgiref.types
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import exposition, registry

from app import telemetry

_STOP_TIMEOUT = 5.0

Checks = Callable[[], Mapping[str, str | None]]
"""Returns name -> problem, or None if the check passes; answers at once."""


@contextlib.contextmanager
def serving(host: str, port: int, checks: Checks, metrics: registry.CollectorRegistry) -> Iterator[int]:
    """Serve while the block runs; yields the port. Raises OSError if it is taken."""

    def answer(environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        content = "text/plain; charset=utf-8"
        match environ["PATH_INFO"]:
            case "/livez":
                code, body = telemetry.loops.liveness()
                status = http.HTTPStatus(code)
            case "/readyz":
                code, body = telemetry.readiness.report(checks())
                status = http.HTTPStatus(code)
            case "/metrics":
                encode, content = exposition.choose_encoder(environ.get("HTTP_ACCEPT", ""))
                status, body = http.HTTPStatus.OK, encode(metrics)
            case _:
                status, body = http.HTTPStatus.NOT_FOUND, b"this port has /livez, /readyz and /metrics\n"
        start(
            f"{status.value} {status.phrase}",
            [("Content-Type", content), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")],
        )
        return [body]

    with wsgiref.simple_server.make_server(host, port, answer, _Server, _Handler) as server:
        serve = functools.partial(server.serve_forever, 0.1)
        loop = telemetry.loops.Loop("health", serve, wait=threading.Event().wait).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            loop.join(_STOP_TIMEOUT)


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """One thread for each probe, so that a hanging probe does not delay the others."""

    daemon_threads = True


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    timeout = 5

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Probes are not logged."""
