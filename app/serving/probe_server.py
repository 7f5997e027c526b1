"""Serves probes and metrics on a plain HTTP port, for every process.

The kubelet and Prometheus have no client certificate. A separate thread serves them, so that they get a
response while all other threads are busy. Slow clients cannot block that thread: it polls many
connections and closes each after one response or after two seconds. It answers /livez itself, which takes no
time: a few scrapes that take long have all other threads, and the kubelet would end the process.
"""

import contextlib
import io
import selectors
import socket
import sys
import time
import wsgiref.types
from collections.abc import Iterable, Iterator
from typing import Any

import structlog

from app import telemetry
from app.serving import ports, thread_pools
from app.serving.http import whole_responses

SECONDS = 2.0
CONNECTIONS = 128
HEAD_LIMIT = 8 * 1024
THREADS = 4
END_OF_HEAD = b"\r\n\r\n"
LIVENESS = b"GET /livez "

log = structlog.get_logger(__name__)


class ProbeServer:
    """Serves a WSGI application with one request per connection."""

    def __init__(self, listener: socket.socket, application: wsgiref.types.WSGIApplication) -> None:
        self._listener = listener
        self._application = application
        self._poller: selectors.BaseSelector
        self._heads: dict[socket.socket, tuple[bytes, float]] = {}
        self._pool = thread_pools.ThreadPool(THREADS, "probe")
        self._loop = telemetry.loops.Loop("probes", self._run, longest=1.0)

    def start(self) -> None:
        """Start to serve, in a thread."""
        self._loop.start()

    def stop(self, *, wait: bool = False) -> None:
        """Stop serving; with ``wait``, return only when all threads have ended."""
        self._loop.stop(timeout=SECONDS)
        self._pool.shutdown(wait=wait, cancel_futures=True)

    def _run(self) -> None:
        with selectors.DefaultSelector() as self._poller:
            self._poller.register(self._listener, selectors.EVENT_READ)
            try:
                self._serve()
            finally:
                for connection in self._heads:
                    connection.close()
                self._heads.clear()

    def _serve(self) -> None:
        while not self._loop.stopped:
            for key, _ in self._poller.select(timeout=0.25):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._heads:
                    # An accept in this loop may have closed the connection.
                    self._take(key.fileobj)
            now = time.monotonic()
            for connection in [each for each, (_, deadline) in self._heads.items() if deadline <= now]:
                self._forget(connection).close()

    def _accept(self) -> None:
        accepted = ports.accept(self._listener)
        if accepted is None:
            return
        connection, _ = accepted
        connection.setblocking(False)
        if len(self._heads) >= CONNECTIONS:
            self._forget(next(iter(self._heads))).close()
        self._heads[connection] = (b"", time.monotonic() + SECONDS)
        self._poller.register(connection, selectors.EVENT_READ)

    def _forget(self, connection: socket.socket) -> socket.socket:
        del self._heads[connection]
        self._poller.unregister(connection)
        return connection

    def _take(self, connection: socket.socket) -> None:
        head, deadline = self._heads[connection]
        try:
            piece = connection.recv(HEAD_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        head += piece
        if not piece or len(head) > HEAD_LIMIT:
            self._forget(connection).close()
        elif END_OF_HEAD in head and head.startswith(LIVENESS):
            self._answer(self._forget(connection), head)
        elif END_OF_HEAD in head:
            self._pool.submit(self._answer, self._forget(connection), head)
        else:
            self._heads[connection] = (head, deadline)

    def _answer(self, connection: socket.socket, head: bytes) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(SECONDS)
            connection.sendall(respond(self._application, head))
            connection.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def serving(listener: socket.socket, application: wsgiref.types.WSGIApplication) -> Iterator[None]:
    """Serve while the block runs, then close the listener."""
    with listener:
        server = ProbeServer(listener, application)
        server.start()
        try:
            yield
        finally:
            server.stop(wait=True)


def respond(application: wsgiref.types.WSGIApplication, head: bytes) -> bytes:
    """Return the complete HTTP response of an application to a request head."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _message("400 Bad Request", [], b"")
    method, target, _ = words
    path, _, query = target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SCRIPT_NAME": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    } | dict(_headers(head))
    try:
        status, headers, body = whole_responses.respond(application, environ)
    except Exception:
        log.exception("probe failed", path=path)
        status, headers, body = "500 Internal Server Error", [], b""
    return _message(status, headers, b"" if method == "HEAD" else body, length=len(body))


def _headers(head: bytes) -> Iterable[tuple[str, str]]:
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, found, value = line.partition(":")
        if found:
            yield "HTTP_" + name.strip().upper().replace("-", "_"), value.strip()


def _message(status: str, headers: list[tuple[str, str]], body: bytes, *, length: int = 0) -> bytes:
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
    lines += [f"Content-Length: {length}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
