"""A minimal HTTP/1.1 client for the calls that kube-scheduler waits for, beside the official client.

Every pod is bound by one Binding while kube-scheduler waits, and the official client costs more than
the call itself. This one writes a request in one piece to a kept connection and reads the reply in as
few steps as HTTP/1.1 allows. It has no redirects, proxies, compression or streams: lists, watches, and
every call through a proxy, go through the official client (clients). Credentials and trust are the same.
"""

import contextlib
import http
import re
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

_MAX_REPLY = 8 * 1024 * 1024
"""Bytes."""
_MAX_IDLE = 64
_FRAMING = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n|\Z)"
)
"""The fields of a head, in lower case, that decide where the reply ends."""
_DIGITS = re.compile(rb"[0-9A-Fa-f]+")


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
        self._idle: deque[tuple[Socket, credentials.Tls]] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def exchange(self, method: str, path: str, body: bytes, *, timeout: float) -> Reply:
        """Send one request; ``timeout`` in seconds. Raises Unreachable; ``refused``: nothing was sent.

        A request on a kept connection that turns out to be closed is repeated on a new one, and the reply
        is marked as ``repeated``. Use it only for idempotent requests.
        """
        deadline = time.monotonic() + timeout
        request, tls = self._request(method, path, body), self._access.tls
        repeated = False
        if (kept := self._kept(tls)) is not None:
            try:
                return self._send(kept, tls, request, deadline, reused=True)
            except Stale:
                repeated = True
        try:
            connection = self._connect(deadline)
        except errors.Unreachable as problem:
            # The server may have carried out the first sending before it closed the kept connection.
            raise errors.Unreachable(str(problem), refused=problem.refused and not repeated) from problem
        reply = self._send(connection, tls, request, deadline, reused=False)
        return reply._replace(repeated=repeated)

    def close(self) -> None:
        """Close every idle connection."""
        with self._lock:
            self._closed = True
            # A call takes a connection without the lock.
            with contextlib.suppress(IndexError):
                while True:
                    self._idle.pop()[0].close()

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
                f"cannot connect to {self._access.shown}: {problem}", refused=True
            ) from problem

    def _context(self) -> ssl.SSLContext:
        """A new context for each connection, so that rotated files are read; connections are few."""
        tls = self._access.tls
        context = ssl.create_default_context(cafile=tls.ca_file)
        if not self._access.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert_file:
            context.load_cert_chain(tls.cert_file, tls.key_file)
        return context

    def _send(
        self, connection: Socket, tls: credentials.Tls, request: bytes, deadline: float, *, reused: bool
    ) -> Reply:
        incoming = _Incoming(connection, deadline)
        try:
            connection.settimeout(_left(deadline))
            connection.sendall(request)
            reply, kept = _read(incoming)
        except (OSError, ValueError) as problem:
            _reset(connection)
            closed = isinstance(problem, ConnectionError | ssl.SSLEOFError | EOFError)
            if reused and incoming.silent and closed:
                raise Stale(str(problem)) from problem
            raise errors.Unreachable(f"no answer from {self._access.shown}: {problem!r}") from problem
        self._keep(connection, tls, kept)
        return reply

    def _kept(self, tls: credentials.Tls) -> Socket | None:
        """An idle connection, if there is one; those that were made with another certificate are closed."""
        with contextlib.suppress(IndexError):
            while True:
                connection, made_with = self._idle.pop()
                if made_with == tls:
                    return connection
                connection.close()
        return None

    def _keep(self, connection: Socket, tls: credentials.Tls, kept: bool) -> None:
        with self._lock:
            if kept and not self._closed and len(self._idle) < _MAX_IDLE and tls == self._access.tls:
                self._idle.append((connection, tls))
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


class _Incoming:
    """The bytes of one reply, in the order in which they are taken."""

    def __init__(self, connection: Socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._received = bytearray()
        self._taken = 0

    @property
    def silent(self) -> bool:
        """Nothing has been received."""
        return not self._received

    @property
    def finished(self) -> bool:
        """Everything that was received has been taken."""
        return len(self._received) == self._taken

    def line(self, end: bytes = b"\r\n") -> bytes:
        """The bytes up to ``end``, which is taken, too. Raises OSError or ValueError."""
        while (at := self._received.find(end, self._taken)) < 0:
            self._receive()
        found = bytes(self._received[self._taken : at])
        self._taken = at + len(end)
        return found

    def take(self, size: int) -> bytes:
        """So many bytes. Raises OSError or ValueError."""
        end = self._taken + size
        while len(self._received) < end:
            self._receive()
        found = bytes(self._received[self._taken : end])
        self._taken = end
        return found

    def _receive(self) -> None:
        if len(self._received) > _MAX_REPLY:
            raise ValueError("reply too long")
        self._connection.settimeout(_left(self._deadline))
        data = self._connection.recv(65_536)
        if not data:
            raise ConnectionResetError("the connection was closed")
        self._received += data


def _read(incoming: _Incoming) -> tuple[Reply, bool]:
    """The reply, and whether the connection can be reused. Raises OSError or ValueError.

    A reply whose end is not certain raises ValueError: its rest would count as the reply to the next request.
    """
    status = 0
    while status < http.HTTPStatus.OK:  # Interim replies, such as 103 of a load balancer, come first.
        head = incoming.line(b"\r\n\r\n").lower()
        status = int(head[9:12])
    fields = _FRAMING.findall(head)
    lengths = {value for name, value in fields if name == b"content-length"}
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if codings == [b"chunked"] and not lengths:
        body = _chunks(incoming)
    elif len(lengths) == 1 and not codings:
        body = incoming.take(_size(lengths.pop(), 10))
    elif status == http.HTTPStatus.NO_CONTENT:
        body = b""
    else:
        raise ValueError("the length of the reply is not certain")
    closes = any(name == b"connection" and b"close" in value for name, value in fields)
    return Reply(status, body), head.startswith(b"http/1.1") and not closes and incoming.finished


def _size(digits: bytes, base: int) -> int:
    """A length. Raises ValueError unless it consists of digits."""
    if not _DIGITS.fullmatch(digits):
        raise ValueError(f"{digits[:20]!r} bytes")
    return int(digits, base)


def _chunks(incoming: _Incoming) -> bytes:
    body = bytearray()
    while size := _size(incoming.line().partition(b";")[0].strip(), 16):
        body += incoming.take(size)
        if incoming.take(2) != b"\r\n":
            raise ValueError("a chunk of the reply is longer than it declares")
    while incoming.line():
        pass  # trailers
    return bytes(body)
