"""The application that these tests serve: it answers with the caller and the size of the body.

Run as a process: python -m tests.support.extender.echo_application SETTINGS, a JSON file of `Plan`.
"""

import dataclasses
import itertools
import json
import logging
import os
import pathlib
import resource
import signal
import socket
import sys
import threading
import time
import wsgiref.types
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import prometheus_client

from app import telemetry
from app.serving import errors, introspection, servers
from app.serving.access import authorization, roles
from app.serving.http import conn_metrics, deadlines
from app.serving.tls import keystores, role_names, rotation
from app.telemetry import probes
from tests.support import thread_limits

BODY_LIMIT = 4 * 1024 * 1024
EXPORTED, PIECE = 64 * 1024 * 1024, 32 * 1024
"""Bytes of an export, and of each of its pieces."""
FATAL = b"fail"
"""A body on which the application raises."""


@dataclasses.dataclass(frozen=True)
class Plan:
    certificate: str = ""
    key: str | None = None
    trust: str = ""
    crl: str | None = None
    password: str | None = None
    trust_password: str | None = None
    insecure: bool = False
    threads: int = 8
    small_body: int = BODY_LIMIT
    """The largest body, in bytes, of which there may be more than two at once."""
    workers: int = 1
    reply: int = 0
    stock: bool = False
    handshake: float = 3.5
    body: float = 5.0
    idle: int = 120
    stopping: float = 2.0
    age: float = 3600.0
    answer: float = 5.0
    host: str = "127.0.0.1"
    introspection: bool = False
    obstacle: str = ""
    """A path; while there is a file, the introspection process, or a worker without one, cannot start."""
    forwarded: float = 30.0
    """Seconds that a forwarded request may take."""
    files: int = 0
    """The limit of open files, or 0 for that of this process."""


def main(path: str) -> None:
    plan = Plan(**json.loads(pathlib.Path(path).read_text()))
    telemetry.configure(level="info", form="json")
    if plan.files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (plan.files, plan.files))
    try:
        serve(plan)
    except errors.ServingError as error:
        logging.getLogger("topolog").critical("%s", error)
        sys.exit(1)


def serve(plan: Plan) -> None:
    rotating = None
    if not plan.insecure:
        source = keystores.Source(
            certificate=pathlib.Path(plan.certificate),
            trust=pathlib.Path(plan.trust),
            key=pathlib.Path(plan.key) if plan.key else None,
            crl=pathlib.Path(plan.crl) if plan.crl else None,
            password=plan.password,
            trust_password=plan.trust_password,
        )
        rotating = rotation.RotatingContext(source)
    meter = conn_metrics.ConnectionMetrics(rotating)
    registry = prometheus_client.CollectorRegistry()
    registry.register(meter)
    started = threading.Event()
    options = servers.Options(
        host=plan.host,
        port=0,
        health_host="127.0.0.1",
        health_port=0,
        threads=plan.threads,
        small_body=plan.small_body,
        workers=plan.workers,
        graceful_seconds=5,
        insecure=plan.insecure,
        limits=deadlines.Deadlines(
            handshake=plan.handshake,
            head=plan.handshake,
            body=plan.body,
            idle=plan.idle,
            age=plan.age,
            answer=plan.answer,
            stopping=plan.stopping,
        ),
    )
    roster = roles.RoleBindings(anonymous=role_names.ROLES if plan.insecure else ())
    port = introspection.Endpoint() if plan.introspection else None
    forwarding = introspection.ForwardingApplication(port.path, seconds=plan.forwarded) if port else None
    parts = servers.Parts(
        load=lambda: application(
            roster, b"x" * plan.reply, forwarding, obstacle="" if plan.introspection else plan.obstacle
        ),
        health=lambda: probes.application(
            lambda: {"worker": None if started.is_set() else "not started"},
            registry,
            alone=plan.workers == 1,
        ),
        started=started.set,
        load_introspection=(lambda: introspecting(plan.obstacle)) if plan.introspection else None,
        port=port,
        stopping=lambda: telemetry.log.info("stopping was called"),
    )
    servers.serve(options, parts, rotating=rotating, meter=meter)


def application(
    roster: roles.RoleBindings,
    reply: bytes,
    elsewhere: wsgiref.types.WSGIApplication | None = None,
    *,
    obstacle: str = "",
) -> authorization.Middleware:
    find_no(obstacle)

    def answer(environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        if elsewhere is not None and environ["PATH_INFO"] not in roles.VERB_PATHS:
            return elsewhere(environ, start)
        method, path, caller = (
            environ["REQUEST_METHOD"],
            environ["PATH_INFO"],
            environ[authorization.IDENTITY],
        )
        body = reply
        if method == "POST":
            data = environ["wsgi.input"].read()
            if data == FATAL:
                raise RuntimeError("this application fails")
            if path == "/apis/v1/simulate":
                body = json.dumps({key: value for key, value in environ.items() if plain(value)}).encode()
            elif not reply:
                body = json.dumps({"length": len(data), "who": caller.name}).encode()
        elif path == "/apis/v1/slow":
            telemetry.log.info("a slow call began")
            time.sleep(0.5)
            body = b"done"
        elif path == "/apis/v1/endless":
            telemetry.log.info("an endless call began")
            threading.Event().wait()
        elif path == "/apis/v1/watch":
            start("200 OK", [("Content-Type", "text/event-stream")])
            return streamed(ticking())
        elif path == "/apis/v1/threadless":
            refuse_threads()
            start("200 OK", [("Content-Type", "text/event-stream")])
            return Unstarted()
        elif path == "/apis/v1/brief":
            start("200 OK", [("Content-Type", "text/event-stream")])
            return streamed(iter([b"data: only\n\n"]))
        elif path == "/apis/v1/poolless":
            refuse_threads()
            body = b"done"
        elif path == "/apis/v1/export":
            start("200 OK", [("Content-Type", "application/x-tar")])
            return streamed(bytes(PIECE) for _ in range(EXPORTED // PIECE))
        elif path != "/apis/v1/large":
            body = json.dumps(seen(environ, caller)).encode()
        start("200 -", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return authorization.Middleware(answer, roster, lambda _: BODY_LIMIT)


def refuse_threads() -> None:
    """From now on this process can start no thread."""
    mock.patch.object(threading.Thread, "start", thread_limits.refuse).start()


class Unstarted:
    """Pieces of which none is requested."""

    def __iter__(self) -> Iterator[bytes]:
        return ticking()

    def close(self) -> None:
        telemetry.log.info("a stream was closed")


def ticking() -> Iterator[bytes]:
    """Pieces with increasing numbers until the client hangs up."""
    for number in itertools.count():
        yield b"data: %d\n\n" % number
        time.sleep(0.01)


def streamed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces, with a line of the log at the start and at the end."""
    telemetry.log.info("a stream began")
    try:
        yield from pieces
    finally:
        telemetry.log.info("a stream was closed")


def find_no(obstacle: str) -> None:
    if obstacle and pathlib.Path(obstacle).exists():
        raise RuntimeError("this application cannot start")


def introspecting(obstacle: str) -> wsgiref.types.WSGIApplication:
    find_no(obstacle)
    return seen_elsewhere


def seen_elsewhere(
    environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
) -> Iterable[bytes]:
    """The application of the introspection process."""
    path = environ["PATH_INFO"]
    if path == "/apis/v1/slow":
        telemetry.log.info("a slow call began")
        time.sleep(0.5)
    elif path == "/apis/v1/poolless":
        refuse_threads()
    elif path == "/apis/v1/slower":
        telemetry.log.info("a slower call began")
        time.sleep(3.0)
    elif path == "/apis/v1/fatal":
        os.kill(os.getpid(), signal.SIGKILL)
    elif path == "/apis/v1/fails":
        raise RuntimeError("this application fails")
    answer = {
        "who": environ[authorization.IDENTITY].name,
        "query": environ["QUERY_STRING"],
        "body": environ["wsgi.input"].read().decode(),
        "pid": os.getpid(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
    }
    start("200 OK", [("Content-Type", "application/json"), ("X-Here", "yes")])
    return [json.dumps(answer).encode()]


def plain(value: object) -> bool:
    return isinstance(value, str | bool | tuple)


def seen(environ: wsgiref.types.WSGIEnvironment, caller: roles.Identity) -> dict[str, Any]:
    connection = environ["gunicorn.socket"]
    return {
        "who": caller.name,
        "roles": sorted(caller.roles),
        "nodelay": bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)),
        "scheme": environ["wsgi.url_scheme"],
        "path": environ["PATH_INFO"],
        "address": environ["REMOTE_ADDR"],
        "threads": threading.active_count(),
    }


if __name__ == "__main__":
    main(sys.argv[1])
