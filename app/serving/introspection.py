"""Forwards requests to the introspection API to a separate process.

Python threads of a process compute in turn: an introspection request that takes 10 ms delays every verb by as
much. The extender's worker therefore only authorizes the caller and forwards the request over a socket in a
private directory. The process at the other end has a separate follower, a lower priority and no access to the
verbs.
"""

import contextlib
import io
import os
import pathlib
import select
import shutil
import socket
import struct
import sys
import tempfile
import threading
import wsgiref.types
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import structlog

from app.serving import ports
from app.serving.access import authorization, roles
from app.serving.http import whole_responses

TIMEOUT_SECONDS: Final = 30.0
"""Time limit of a request; then its connection is closed."""
POLL_SECONDS: Final = 0.5
BACKLOG: Final = 128
SHARED_MEMORY: Final = pathlib.Path("/dev/shm")
_LENGTH: Final = struct.Struct("!Q")

log = structlog.get_logger(__name__)


def shared_memory_available() -> bool:
    """Return whether /dev/shm is writable: a read-only container has no other writable directory."""
    return SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK)


class ForwardedRequest(msgspec.Struct, array_like=True):
    """A request, as read by the extender's worker."""

    environ: dict[str, str]
    identity: roles.Identity | None
    body: bytes


class ForwardedResponse(msgspec.Struct, array_like=True):
    """The application's response."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(ForwardedRequest).decode
_decode_response = msgspec.msgpack.Decoder(ForwardedResponse).decode


class Endpoint:
    """The socket of the introspection process; created in the master, so that both sides share it."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        # A directory of mode 0700: every client of the socket is trusted as the extender's worker.
        self._directory = tempfile.mkdtemp(
            prefix="topolog-", dir=SHARED_MEMORY if shared_memory_available() else None
        )
        self.path = os.path.join(self._directory, "introspection")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(BACKLOG)

    def close(self) -> None:
        """Close the socket; the process that created it also removes the directory."""
        self.listener.close()
        if os.getpid() == self._owner:
            shutil.rmtree(self._directory, ignore_errors=True)


class ForwardingApplication:
    """A WSGI application that forwards requests; each thread keeps a connection."""

    def __init__(self, path: str, *, seconds: float = TIMEOUT_SECONDS) -> None:
        self._path = path
        self._seconds = seconds
        self._local = threading.local()

    def __call__(
        self, environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
    ) -> Iterable[bytes]:
        """Forward a request and wait for the response; 503 if none arrives."""
        identity = environ.get(authorization.IDENTITY)
        request = ForwardedRequest(
            {name: value for name, value in environ.items() if type(value) is str},
            identity if isinstance(identity, roles.Identity) else None,
            environ["wsgi.input"].read(),
        )
        try:
            response = _decode_response(self._exchange(_encode(request)))
        except OSError as error:
            self.close()
            log.warning(
                "no response from the introspection process", path=environ["PATH_INFO"], reason=str(error)
            )
            return _unavailable(start)
        start(response.status, response.headers)
        return [response.body]

    def _exchange(self, request: bytes) -> bytes:
        connection: socket.socket | None = getattr(self._local, "connection", None)
        if connection is not None:
            # A connection that was closed meanwhile fails here, before the request is processed.
            try:
                _send(connection, request)
            except ConnectionError:
                self.close()
            else:
                return _receive(connection)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._local.connection = connection
        connection.settimeout(self._seconds)
        connection.connect(self._path)
        _send(connection, request)
        return _receive(connection)

    def close(self) -> None:
        """Close the connection of this thread."""
        connection: socket.socket | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None


class IntrospectionServer:
    """Serves forwarded requests, with a thread per connection."""

    def __init__(self, listener: socket.socket, application: wsgiref.types.WSGIApplication) -> None:
        self._listener = listener
        self._application = application

    def run(self, keep_running: Callable[[], bool]) -> None:
        """Serve until `keep_running` returns False; it is polled twice per second."""
        self._listener.setblocking(False)
        while keep_running():
            if select.select([self._listener], [], [], POLL_SECONDS)[0]:
                accepted = ports.accept(self._listener)
                if accepted is not None:
                    connection, _ = accepted
                    connection.setblocking(True)
                    self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(connection,), name="forwarded", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            connection.close()  # The forwarding worker answers 503.
            log.warning("a forwarded request was refused", problem=str(error))

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while True:
                _send(connection, _encode(self._respond(_decode_request(_receive(connection)))))

    def _respond(self, request: ForwardedRequest) -> ForwardedResponse:
        environ: wsgiref.types.WSGIEnvironment = {
            **request.environ,
            "wsgi.version": (1, 0),
            "wsgi.input": io.BytesIO(request.body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        if request.identity is not None:
            environ[authorization.IDENTITY] = request.identity
        try:
            return ForwardedResponse(*whole_responses.respond(self._application, environ))
        except Exception:
            log.exception("request failed", path=request.environ.get("PATH_INFO"))
            headers = [("Content-Type", "application/json")]
            return ForwardedResponse("500 Internal Server Error", headers, FAULT)


FAULT: Final = msgspec.json.encode(
    {"message": "internal error: see the server's log", "reasonCode": "InternalError"}
)


def _unavailable(start: wsgiref.types.StartResponse) -> Iterable[bytes]:
    document = {
        "message": "the introspection process is unavailable or too slow: retry later",
        "reasonCode": "Unavailable",
    }
    body = msgspec.json.encode(document)
    headers = [("Content-Type", "application/json"), ("Retry-After", "1")]
    start("503 Service Unavailable", [*headers, ("Content-Length", str(len(body)))])
    return [body]


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(data)) + data)


def _receive(connection: socket.socket) -> bytes:
    """Receive one message. Raises ConnectionResetError at the end of the connection."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return bytes(_exactly(connection, length))


def _exactly(connection: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    with memoryview(data) as view:
        filled = 0
        while filled < length:
            received = connection.recv_into(view[filled:])
            if not received:
                raise ConnectionResetError("the other end closed the connection")
            filled += received
    return data
