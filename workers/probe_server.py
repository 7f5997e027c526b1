"""Serves the health port of a worker (app.telemetry.probes), in plain HTTP."""

import contextlib
import functools
import socketserver
import threading
import wsgiref.simple_server
from collections.abc import Iterator

from prometheus_client import registry

from app import telemetry
from app.telemetry import probes

_STOP_TIMEOUT = 5.0


@contextlib.contextmanager
def serving(
    host: str, port: int, checks: probes.Checks, metrics: registry.CollectorRegistry
) -> Iterator[int]:
    """Serve while the block runs; yields the port. Raises OSError if it is taken."""
    application = probes.application(checks, metrics)
    with wsgiref.simple_server.make_server(host, port, application, _Server, _Handler) as server:
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
