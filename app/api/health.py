"""Probes and metrics: what the kubelet and Prometheus ask, and nothing else.

/livez says that the process answers and that every thread runs that has to; it depends on nothing
outside, so that a store that is away does not make Kubernetes restart what waits for it. /readyz says
whether calls can be answered, and if not, which check fails.
"""

import http
import wsgiref.types
from collections.abc import Callable, Iterable, Mapping

import prometheus_client
from prometheus_client import exposition, registry

from app import telemetry

TEXT = "text/plain; charset=utf-8"
SEVERAL = b"no metrics with several workers: set server.workers to 1 and run replicas\n"
READING = frozenset({"GET", "HEAD"})

Checks = Callable[[], Mapping[str, str | None]]
"""Returns, for each thing that has to be well, None or what is wrong with it.

Answers at once, from what is known.
"""


def application(
    checks: Checks, metrics: registry.CollectorRegistry = prometheus_client.REGISTRY, *, alone: bool = True
) -> wsgiref.types.WSGIApplication:
    """Return the WSGI application of the plain port.

    Unless this worker process is ``alone`` behind its port there are no metrics: counters that are another
    process' with each scrape would look like restarts.
    """

    def answer(environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        content_type = TEXT
        if path not in {"/livez", "/readyz", "/metrics"}:
            status, body = http.HTTPStatus.NOT_FOUND, b"this port has /livez, /readyz and /metrics\n"
        elif environ["REQUEST_METHOD"] not in READING:
            status, body = http.HTTPStatus.METHOD_NOT_ALLOWED, b"GET or HEAD\n"
        elif path == "/livez":
            code, body = telemetry.loops.liveness()
            status = http.HTTPStatus(code)
        elif path == "/readyz":
            status, body = _readiness(checks())
        elif not alone:
            status, body = http.HTTPStatus.NOT_IMPLEMENTED, SEVERAL
        else:
            encode, content_type = exposition.choose_encoder(environ.get("HTTP_ACCEPT", ""))
            status, body = http.HTTPStatus.OK, encode(metrics)
        headers = [("Content-Type", content_type), ("Cache-Control", "no-store")]
        if status is http.HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        start(f"{status.value} {status.phrase}", headers)
        return [body]

    return answer


def _readiness(found: Mapping[str, str | None]) -> tuple[http.HTTPStatus, bytes]:
    lines = [f"[{'-' if wrong else '+'}] {name}: {wrong or 'ok'}" for name, wrong in found.items()]
    ready = not any(found.values())
    status = http.HTTPStatus.OK if ready else http.HTTPStatus.SERVICE_UNAVAILABLE
    return status, "\n".join([*lines, "ready" if ready else "not ready", ""]).encode()
