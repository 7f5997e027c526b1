"""Answers the probes of the kubelet and serves the metrics of Prometheus, the same for every process.

/livez succeeds while every required thread runs. It depends on nothing outside the process, so that
Kubernetes does not restart processes that wait for the store; one that could not use it since its start ends
by itself (stores.await_store). /readyz succeeds if calls can be answered, and otherwise lists the failing
checks.
"""

import http
import wsgiref.types
from collections.abc import Iterable

from prometheus_client import exposition, registry

from app.telemetry import loops, readiness

TEXT = "text/plain; charset=utf-8"
SEVERAL = b"metrics need a single worker: set server.workers to 1 and run replicas\n"
READING = frozenset({"GET", "HEAD"})


def application(
    checks: readiness.Checks, metrics: registry.CollectorRegistry, *, alone: bool = True
) -> wsgiref.types.WSGIApplication:
    """Return the WSGI application of the plain port.

    ``alone``: this worker process is the only one behind its port. Otherwise there are no metrics: each
    scrape would reach another process, whose counters look like those of a restart.
    """

    def answer(environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        content_type = TEXT
        if path not in {"/livez", "/readyz", "/metrics"}:
            status, body = http.HTTPStatus.NOT_FOUND, b"this port serves /livez, /readyz and /metrics\n"
        elif environ["REQUEST_METHOD"] not in READING:
            status, body = http.HTTPStatus.METHOD_NOT_ALLOWED, b"GET or HEAD\n"
        elif path == "/livez":
            code, body = loops.liveness()
            status = http.HTTPStatus(code)
        elif path == "/readyz":
            code, body = readiness.report(checks())
            status = http.HTTPStatus(code)
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
