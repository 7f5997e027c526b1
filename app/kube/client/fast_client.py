"""A minimal HTTP/1.1 client for the calls that kube-scheduler waits for, beside the official client.

Every pod is bound by one Binding while kube-scheduler waits, and the official client costs more than
the call itself. This one writes a request in one piece to a kept connection and reads the reply in as
few steps as HTTP/1.1 allows. It has no redirects, proxies, compression or streams: lists, watches, and
every call through a proxy, go through the official client (clients). Credentials and trust are the same.
"""

import contextlib
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from collections import deque
from typing import NamedTuple, Protocol

from app.kube import errors
from app.kube.client import credentials

_MAX_BODY = 8 * 1024 * 1024
_MAX_HEAD = 64 * 1024
_MAX_IDLE = 64


class Reply(NamedTuple):
    """Status code and body."""

    status: int
    body: bytes
    repeated: bool = False
    """The request was sent more than once: the reply is to the last one, and the server may have carried out
    an earlier one."""


class Socket(Protocol):
    """The methods of a socket that this client uses."""

    def settimeout(self, value: float, /) -> None: ...
    def setsockopt(self, level: int, name: int, value: bytes, /) -> None: ...
    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class Stale(errors.Unreachable):
    """A kept connection turned out to be closed before the first byte of the reply."""


class FastClient:
    """Calls to one server over kept connections. Thread-safe: no two calls share a connection."""

    def __init__(self, access: credentials.Access) -> None:
        self._access = access
        url = urllib.parse.urlsplit(access.host)
        self._secure = url.scheme == "https"
        self._address = (url.hostname or "", url.port or (443 if self._secure else 80))
        self._prefix = url.path.rstrip("/")
        self._host = url.netloc.rpartition("@")[2]
        self._idle: deque[Socket] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def exchange(self, method: str, path: str, body: bytes, *, timeout: float) -> Reply:
        """Send one request; ``timeout`` in seconds. Raises Unreachable; ``refused``: nothing was sent.

        A request on a kept connection that turns out to be closed is repeated on a new one, and the reply
        is marked as ``repeated``. Use it only for idempotent requests.
        """
        deadline = time.monotonic() + timeout
        request = self._request(method, path, body)
        repeated = False
        with contextlib.suppress(IndexError):
            kept = self._idle.pop()
            try:
                return self._send(kept, request, deadline, reused=True)
            except Stale:
                repeated = True
        try:
            connection = self._connect(deadline)
        except errors.Unreachable as problem:
            # The server may have carried out the first sending before it closed the kept connection.
            raise errors.Unreachable(str(problem), refused=problem.refused and not repeated) from problem
        reply = self._send(connection, request, deadline, reused=False)
        return reply._replace(repeated=repeated)

    def close(self) -> None:
        """Close every idle connection."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    def _request(self, method: str, path: str, body: bytes) -> bytes:
        authorization = self._access.authorization()
        return (
            b"%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: topolog\r\nAccept: application/json\r\n%s%s\r\n%s"
            % (
                method.encode(),
                (self._prefix + path).encode(),
                self._host.encode(),
                b"Authorization: %s\r\n" % authorization.encode() if authorization else b"",
                b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body) if body else b"",
                body,
            )
        )

    def _connect(self, deadline: float) -> Socket:
        try:
            raw = socket.create_connection(self._address, timeout=_left(deadline))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self._secure:
                return raw
            try:
                name = self._access.server_name or self._address[0]
                return self._context().wrap_socket(raw, server_hostname=name)
            except OSError:
                raw.close()
                raise
        except OSError as problem:
            raise errors.Unreachable(
                f"cannot connect to {self._access.host}: {problem}", refused=True
            ) from problem

    def _context(self) -> ssl.SSLContext:
        """A new context for each connection, so that rotated files are read; connections are few."""
        context = ssl.create_default_context(cafile=self._access.ca_file)
        if not self._access.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._access.cert_file:
            context.load_cert_chain(self._access.cert_file, self._access.key_file)
        return context

    def _send(self, connection: Socket, request: bytes, deadline: float, *, reused: bool) -> Reply:
        received = bytearray()
        try:
            connection.settimeout(_left(deadline))
            connection.sendall(request)
            reply, kept = _read(connection, received, deadline)
        except (OSError, ValueError) as problem:
            _reset(connection)
            closed = isinstance(problem, ConnectionError | ssl.SSLEOFError | EOFError)
            if reused and not received and closed:
                raise Stale(str(problem)) from problem
            raise errors.Unreachable(f"no answer from {self._access.host}: {problem!r}") from problem
        self._keep(connection, kept)
        return reply

    def _keep(self, connection: Socket, kept: bool) -> None:
        with self._lock:
            if kept and not self._closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _reset(connection: Socket) -> None:
    """Reset a connection, so that the server receives nothing more of the request.

    After an ordinary close the kernel keeps retransmitting: a Binding that timed out would be carried out
    minutes later, when a network partition heals.
    """
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline of the call has passed")
    return left


def _read(connection: Socket, received: bytearray, deadline: float) -> tuple[Reply, bool]:
    """The reply, and whether the connection can be reused."""
    while (end := received.find(b"\r\n\r\n")) < 0:
        if len(received) > _MAX_HEAD:
            raise ValueError("reply head too long")
        _receive(connection, received, deadline)
    head = bytes(received[:end]).lower()
    status = int(head[9:12])
    kept = b"\r\nconnection: close" not in head and head.startswith(b"http/1.1")
    start = end + 4
    if b"\r\ntransfer-encoding: chunked" in head:
        return Reply(status, _chunks(connection, received, start, deadline)), kept
    length = _length(head)
    while len(received) < start + length:
        _receive(connection, received, deadline)
    return Reply(status, bytes(received[start : start + length])), kept


def _length(head: bytes) -> int:
    _, found, rest = head.partition(b"\r\ncontent-length:")
    length = int(rest.partition(b"\r\n")[0]) if found else 0
    if not 0 <= length <= _MAX_BODY:
        raise ValueError(f"reply of {length} bytes")
    return length


def _chunks(connection: Socket, received: bytearray, at: int, deadline: float) -> bytes:
    body = bytearray()
    while True:
        while (end := received.find(b"\r\n", at)) < 0:
            _receive(connection, received, deadline)
        size = int(received[at:end].partition(b";")[0], 16)
        if size + len(body) > _MAX_BODY:
            raise ValueError("reply too long")
        at = end + 2
        while len(received) < at + size + 2:
            _receive(connection, received, deadline)
        if size == 0:
            return bytes(body)
        body += received[at : at + size]
        at += size + 2


def _receive(connection: Socket, received: bytearray, deadline: float) -> None:
    connection.settimeout(_left(deadline))
    data = connection.recv(65_536)
    if not data:
        raise ConnectionResetError("the connection was closed")
    received += data
