"""A simulated API server: real HTTP and real watches, without a cluster.

It serves pods, nodes, the kinds of a schema and the other resources that Topolog uses, with the semantics
that clients of the real one rely on. Both pass the contract in tests/support/kube/api_server_contract.py.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from app.domain import declared_objects
from app.domain import schema as schemas
from app.simulation.apiserver import faults, objects, requests, router, status_replies

RESOURCES = (
    objects.Resource("namespaces", "Namespace", namespaced=False),
    objects.Resource("nodes", "Node", namespaced=False, status=True),
    objects.Resource("pods", "Pod", status=True),
    objects.Resource("events", "Event"),
    objects.Resource("leases", "Lease", "coordination.k8s.io/v1"),
)


def resources(schema: schemas.Schema) -> tuple[objects.Resource, ...]:
    """What is served: the built-in resources, and each kind of the schema in its first version."""
    return *RESOURCES, *map(_resource, schema.kinds)


def _resource(kind: declared_objects.Kind[Any]) -> objects.Resource:
    version = f"{kind.group}/{kind.versions[0]}" if kind.group else kind.versions[0]
    custom = "." in kind.group  # The groups of built-in kinds have no domain, with few exceptions.
    return objects.Resource(
        kind.name, kind.manifest, version, kind.namespaced, custom=custom, plural=kind.resource, status=True
    )


class ApiServer:
    """The server; a context manager that starts and stops it."""

    def __init__(
        self,
        schema: schemas.Schema,
        *,
        further: Iterable[objects.Resource] = (),
        bookmarks: float = 60.0,
        tokens: Iterable[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``schema``: each of its kinds is served in its first version, beside ``further`` resources;
        ``bookmarks``: seconds between them; ``tokens``: accepted bearer tokens, empty: every request."""
        self.objects = objects.Objects((*resources(schema), *further))
        self.router = router.Router(self.objects, tokens=tokens, bookmarks=bookmarks)
        self.faults = faults.Faults()
        self.seen: list[requests.Request] = []
        """All requests so far, for tests that count them."""
        self.accepted = 0
        """Number of accepted connections."""
        self._tls = tls
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._port = 0

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def start(self) -> "ApiServer":
        """Listen on a free port; after a stop, on the same port as before."""
        self._stopping = threading.Event()
        listener = socket.create_server(("127.0.0.1", self._port), backlog=256)
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), name="apiserver", daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop listening and close all connections; the objects stay."""
        self._stopping.set()
        self.faults.clear()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.disconnect()
        with self.objects.changed:
            self.objects.changed.notify_all()

    def disconnect(self) -> None:
        """Shut down all connections."""
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> "ApiServer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- connections -------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with self._lock:
                self._connections.add(connection)
            with connection, connection.makefile("rb") as stream:
                while not self._stopping.is_set() and (request := requests.read(stream)) is not None:
                    if not self._reply(connection, request):
                        break
        with self._lock:
            self._connections.discard(connection)
        connection.close()

    def _reply(self, connection: socket.socket, request: requests.Request) -> bool:
        """Answer one request, or apply its fault; returns whether the connection stays open."""
        self.seen.append(request)
        fault = self.faults.take(request)
        if fault is not None:
            match fault.kind:
                case faults.FaultKind.DROP:
                    return _proxied(connection, fault.proxy_status)
                case faults.FaultKind.FAIL:
                    refused = status_replies.StatusError(fault.status, "Simulated", "a simulated fault")
                    _send(connection, fault.status, refused.body, retry_after=fault.retry_after)
                    return True
                case faults.FaultKind.RAW:
                    connection.sendall(fault.raw)
                    return False
                case faults.FaultKind.STALL:
                    if request.watches:
                        connection.sendall(_WATCH_HEAD)
                    fault.released.wait()
                    return False
                case faults.FaultKind.LOSE:
                    self.router.answer(request)
                    return _proxied(connection, fault.proxy_status)
                case faults.FaultKind.CUT:
                    self._watch(connection, request, changes=1)
                    return False
        if request.watches:
            return self._watch(connection, request)
        _send(connection, *self.router.answer(request))
        return True

    def _watch(self, connection: socket.socket, request: requests.Request, *, changes: int = 0) -> bool:
        """Send changes, only so many unless 0; returns whether the connection stays open."""
        try:
            lines = self.router.watch(request, self._stopping.is_set)
        except status_replies.StatusError as refused:
            _send(connection, refused.status, refused.body)
            return True
        connection.sendall(_WATCH_HEAD)
        for text in lines:
            _send_chunk(connection, text)
            if changes and (changes := changes - 1) == 0:
                return False
        connection.sendall(b"0\r\n\r\n")
        return True


_WATCH_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json;stream=watch\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def _send(connection: socket.socket, status: int, body: bytes, *, retry_after: int = 0) -> None:
    head = b"HTTP/1.1 %d Simulated\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % (
        status,
        len(body),
    )
    if retry_after:
        head += b"Retry-After: %d\r\n" % retry_after
    connection.sendall(b"%s\r\n%s" % (head, body))


def _proxied(connection: socket.socket, status: int) -> bool:
    """Answer as a proxy does, unless the status is 0; returns whether the connection stays open."""
    if status:
        _send(connection, status, b"<html>no healthy upstream</html>")
    return bool(status)


def _send_chunk(connection: socket.socket, text: bytes) -> None:
    connection.sendall(b"%x\r\n%s\r\n" % (len(text), text))
