"""A simulated API server: real HTTP, real watches, no cluster behind it.

It serves pods, nodes, WorkloadPolicies and what else Topolog speaks of, with the semantics that
clients of the real one rely on. The contract in tests/kube/contract.py runs against both.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable
from types import TracebackType

from app.simulation import answering, answers, faults, objects, requests

RESOURCES = (
    objects.Resource("namespaces", "Namespace", namespaced=False),
    objects.Resource("nodes", "Node", namespaced=False),
    objects.Resource("pods", "Pod"),
    objects.Resource("events", "Event"),
    objects.Resource("workloadpolicies", "WorkloadPolicy", "kosmos.io/v1alpha1"),
    objects.Resource("poddisruptionbudgets", "PodDisruptionBudget", "policy/v1"),
    objects.Resource("leases", "Lease", "coordination.k8s.io/v1"),
)


class ApiServer:
    """The server; a context manager that starts and stops it."""

    def __init__(
        self,
        *,
        resources: Iterable[objects.Resource] = RESOURCES,
        bookmarks: float = 60.0,
        tokens: Iterable[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``bookmarks``: seconds between bookmarks; ``tokens``: if any, one of them is asked for."""
        self.objects = objects.Objects(resources)
        self.answering = answering.Answering(self.objects, tokens=tokens, bookmarks=bookmarks)
        self.faults = faults.Faults()
        self.seen: list[requests.Request] = []
        """Every request, for tests that count."""
        self.accepted = 0
        """How many connections were made."""
        self._tls = tls
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._port = 0

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def start(self) -> "ApiServer":
        """Listen on a free port, or on the former one after a stop."""
        self._stopping = threading.Event()
        listener = socket.create_server(("127.0.0.1", self._port), backlog=256)
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), name="apiserver", daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop listening and close every connection; objects stay."""
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
        """Break every connection."""
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
                    if not self._meet(connection, request):
                        break
        with self._lock:
            self._connections.discard(connection)
        connection.close()

    def _meet(self, connection: socket.socket, request: requests.Request) -> bool:
        """Answer one request; whether the connection goes on."""
        self.seen.append(request)
        fault = self.faults.meet(request)
        if fault is not None:
            match fault.kind:
                case faults.Kind.DROP:
                    return _proxied(connection, fault.answered)
                case faults.Kind.FAIL:
                    refused = answers.Refused(fault.status, "Simulated", "a fault was asked for")
                    _send(connection, fault.status, refused.body, retry_after=fault.retry_after)
                    return True
                case faults.Kind.RAW:
                    connection.sendall(fault.raw)
                    return False
                case faults.Kind.STALL:
                    if request.watches:
                        connection.sendall(_WATCH_HEAD)
                    fault.released.wait()
                    return False
                case faults.Kind.LOSE:
                    self.answering.answer(request)
                    return _proxied(connection, fault.answered)
                case faults.Kind.CUT:
                    self._watch(connection, request, changes=1)
                    return False
        if request.watches:
            return self._watch(connection, request)
        _send(connection, *self.answering.answer(request))
        return True

    def _watch(self, connection: socket.socket, request: requests.Request, *, changes: int = 0) -> bool:
        """Send changes; ``changes``: break off after so many. Whether the connection goes on."""
        try:
            lines = self.answering.watch(request, self._stopping.is_set)
        except answers.Refused as refused:
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
    """Answer as a proxy does, if with anything; whether the connection goes on."""
    if status:
        _send(connection, status, b"<html>no healthy upstream</html>")
    return bool(status)


def _send_chunk(connection: socket.socket, text: bytes) -> None:
    connection.sendall(b"%x\r\n%s\r\n" % (len(text), text))
