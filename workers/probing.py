"""The health port of a worker: /livez, /readyz and /metrics, in plain HTTP, and nothing else.

The same words as the extender's, without its web code: /livez depends on nothing outside, /readyz
says which check fails. /livez fails once a thread has died that has to run.
"""

import contextlib
import functools
import http
import socketserver
import threading
import wsgiref.simple_server
import wsgiref.types
from collections.abc import Callable, Iterable, Iterator, Mapping

import prometheus_client
from prometheus_client import exposition

from app import telemetry

_END = 5.0

Checks = Callable[[], Mapping[str, str | None]]


@contextlib.contextmanager
def serving(host: str, port: int, checks: Checks) -> Iterator[int]:
    """Serve while the block runs; yields the port. Raises OSError if it is taken."""

    def answer(environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        content = "text/plain; charset=utf-8"
        match environ["PATH_INFO"]:
            case "/livez":
                code, body = telemetry.loops.liveness()
                status = http.HTTPStatus(code)
            case "/readyz":
                status, body = _readiness(checks())
            case "/metrics":
                encode, content = exposition.choose_encoder(environ.get("HTTP_ACCEPT", ""))
                status, body = http.HTTPStatus.OK, encode(prometheus_client.REGISTRY)
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
            loop.join(_END)


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """One thread for each probe, so that one that hangs hinders nobody."""

    daemon_threads = True


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    timeout = 5

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Probes are not worth a line."""


def _readiness(found: Mapping[str, str | None]) -> tuple[http.HTTPStatus, bytes]:
    lines = [f"[{'-' if wrong else '+'}] {name}: {wrong or 'ok'}" for name, wrong in found.items()]
    ready = not any(found.values())
    status = http.HTTPStatus.OK if ready else http.HTTPStatus.SERVICE_UNAVAILABLE
    return status, "\n".join([*lines, "ready" if ready else "not ready", ""]).encode()
