"""Parses request heads, with a fast path for kube-scheduler, and formats responses.

gunicorn's general parser takes longer than the decision about a few hundred node names. Go's net/http, which
kube-scheduler uses, always formats a JSON POST in the same way, so that one pattern matches it; any other
head is parsed by gunicorn. The application and the client cannot distinguish the two paths.
"""

import functools
import io
import json
import re
import select
import socket
import time
import wsgiref.types
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from gunicorn import SERVER, config, util
from gunicorn.http import errors, message, unreader, wsgi

from app.serving.http import bodies
from app.serving.tls import sockets

Application = Callable[[wsgiref.types.WSGIEnvironment, Any], Iterable[bytes]]
HEAD = re.compile(
    rb"POST ((?:/[\w.-]{1,255}){1,8}) HTTP/1\.1\r\n"
    rb"Host: ([\w.:\[\]-]{1,255})\r\n"
    rb"User-Agent: ([\x21-\x7e]{1,64}(?: [\x21-\x7e]{1,64}){0,8})\r\n"
    rb"Content-Length: (\d{1,12})\r\n"
    rb"Content-Type: (application/json)\r\n"
    rb"(?:Accept-Encoding: (gzip)\r\n)?\r\n"
)
"""The head of a JSON POST as formatted by Go's net/http."""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_LONG: Final = bodies.RequestRefusal(431, "HeadersTooLarge", "the request headers are too large")
_BODILESS: Final = ("1", "204", "304")
"""How the statuses begin whose responses have no body (RFC 9110, 6.4.1)."""
_VARIABLES = ("PATH_INFO", "HTTP_HOST", "HTTP_USER_AGENT", "CONTENT_LENGTH", "CONTENT_TYPE")
_REFUSALS: Final = (
    (errors.LimitRequestLine, 414, "PathTooLong"),
    (errors.LimitRequestHeaders, 431, "HeadersTooLarge"),
)


class _Unsent:
    """Replaces the socket: gunicorn would send 100 Continue before the request is authorized."""

    def send(self, data: bytes) -> int:
        """Send nothing."""
        return len(data)


_UNSENT: Any = _Unsent()


class RequestRefused(Exception):
    """The request is refused without calling the application, and its connection is closed."""

    def __init__(self, refusal: bodies.RequestRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


HUNG_UP = "topolog.hung_up"
"""Key of the environment: a function that returns whether the client no longer waits for the response."""
_ENDED = getattr(select, "POLLRDHUP", 0)
"""Only Linux has it. Elsewhere the end is seen once the connection is reset."""
ENDS = "topolog.ends"
"""Key of the environment: when the connection is too old, by the monotonic clock; a stream ends then."""
STREAMS = ("text/event-stream", "application/x-tar")
"""The content types of responses that are sent as they are produced."""


class StreamBegun(Exception):
    """The application answers with a stream: its head, and its pieces as they are produced."""

    def __init__(self, head: bytes, pieces: Iterable[bytes]) -> None:
        super().__init__("the response is a stream")
        self.head = head
        self.pieces = pieces


class Exchange:
    """One request and its response. `keep_alive`: HTTP allows another request on the connection."""

    def __init__(
        self,
        environ: wsgiref.types.WSGIEnvironment,
        *,
        keep_alive: bool = True,
        expects_continue: bool = False,
    ) -> None:
        """`expects_continue`: the client waits for 100 Continue before it sends the body."""
        self.environ = environ
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        self.verb = False
        self.length = 0
        self.received = 0
        self.limiter: bodies.BodyLimiter | None = None
        """Has reserved memory for the body; None: no memory is reserved."""
        self._body = io.BytesIO()
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self._written: list[bytes] = []

    def fill(self, held: bytes) -> bytes:
        """Take the part of the body that was already received; return the data after it."""
        taken = min(len(held), self.length)
        if taken == self.length:
            self._body = io.BytesIO(held[:taken])
        else:
            # Received in place: with whole nodes, a copy takes a tenth of the time of the call.
            self._body = io.BytesIO(bytes(self.length))
            with self._body.getbuffer() as view:
                view[:taken] = held[:taken]
        self.environ["wsgi.input"] = self._body
        self.received = taken
        return held[taken:]

    def missing(self) -> memoryview:
        """Return the buffer for the rest of the body."""
        return self._body.getbuffer()[self.received :]

    def run(self, application: Application, *, keep_alive: bool) -> tuple[bytes, bytes]:
        """Call the application; return the head and body of its response.

        `keep_alive`: the connection stays open. Raises the application's errors, StreamBegun for a stream,
        and ValueError for invalid headers.
        """
        response = application(self.environ, self._start)
        if not self.for_head and self._is_stream():
            raise StreamBegun(stream_head(self._status, self._headers), response)
        try:
            body = b"".join((*self._written, *response))
        finally:
            close = getattr(response, "close", None)
            if close is not None:
                close()
        if self.for_head or self._status.startswith(_BODILESS):
            return response_head(self._status, self._headers, None, keep_alive=keep_alive), b""
        return response_head(self._status, self._headers, len(body), keep_alive=keep_alive), body

    @property
    def for_head(self) -> bool:
        """Whether the response to the request has no body, whatever its status."""
        return self.environ.get("REQUEST_METHOD") == "HEAD"

    def _is_stream(self) -> bool:
        return any(
            value.startswith(STREAMS) and name.lower() == "content-type" for name, value in self._headers
        )

    def _start(
        self, status: str, headers: list[tuple[str, str]], _: object = None, /
    ) -> Callable[[bytes], object]:
        self._status, self._headers = status, headers
        return self._written.append


def response_head(
    status: str, given: Iterable[tuple[str, str]], length: int | None, *, keep_alive: bool
) -> bytes:
    """Format the head of a response of `length` bytes. Raises ValueError for bad headers.

    None: no length is sent but a declared one, because there is no body, or it ends with the connection.
    """
    lines, declared = [f"HTTP/1.1 {status}"], []
    for name, value in given:
        if util.is_hoppish(name):
            continue
        if name.lower() == "content-length":
            declared.append(value)
        lines.append(f"{name}: {value}")
    if length is not None and not declared:
        lines.append(f"Content-Length: {length}")
    elif length is not None and declared != [str(length)]:
        raise ValueError(f"the response has {length} bytes but declares {', '.join(declared)}")
    if not all(map(str.isprintable, lines)):
        raise ValueError("a response header contains a character that is not printable")
    return "\r\n".join((*lines, _common_headers(int(time.time()), keep_alive), "", "")).encode("latin-1")


def stream_head(status: str, given: Iterable[tuple[str, str]]) -> bytes:
    """Format the head of a response that ends with its connection. Raises ValueError for bad headers."""
    kept = [(name, value) for name, value in given if name.lower() != "content-length"]
    return response_head(status, kept, None, keep_alive=False)


def refusal_response(
    refusal: bodies.RequestRefusal, exchange: Exchange | None, *, keep_alive: bool = False
) -> tuple[bytes, bytes]:
    """Return the head and body of the response to a refused request; None: its head could not be read."""
    status = HTTPStatus(refusal.status)
    body = json.dumps({"message": refusal.message, "reasonCode": refusal.reason_code}).encode()
    headers = [("Content-Type", "application/json"), *refusal.headers]
    head = response_head(f"{status.value} {status.phrase}", headers, len(body), keep_alive=keep_alive)
    return head, b"" if exchange is not None and exchange.for_head else body


class RequestReader:
    """Parses the request heads of one connection."""

    def __init__(
        self,
        cfg: config.Config,
        sock: socket.socket,
        client: tuple[str, int],
        server: tuple[str, int],
        ends: float,
    ) -> None:
        """`ends`: when the connection is too old, by the monotonic clock."""
        self._cfg = cfg
        self._sock = sock
        self._client = client
        self._server = server
        self._ends = ends
        self._common: wsgiref.types.WSGIEnvironment = {}

    def read(self, head: bytes) -> Exchange:
        """Parse a head. Raises RequestRefused."""
        found = HEAD.fullmatch(head)
        if found is None:
            return self._parse(head)
        *values, encoding = (value.decode() if value is not None else None for value in found.groups())
        environ = {
            **self._common_environ(),
            **dict(zip(_VARIABLES, values, strict=True)),
            "RAW_URI": values[0],
        }
        if encoding is not None:
            environ["HTTP_ACCEPT_ENCODING"] = encoding
        return Exchange(environ)

    def _parse(self, head: bytes) -> Exchange:
        try:
            request = message.Request(self._cfg, unreader.IterUnreader([head]), self._client)
        except (errors.ParseException, errors.NoMoreData, StopIteration) as error:
            raise RequestRefused(_refusal(error)) from error
        _, made = wsgi.create(request, _UNSENT, self._client, self._server, self._cfg)
        environ = dict(made)
        environ["gunicorn.socket"] = self._sock
        environ[HUNG_UP] = functools.partial(_hung_up, self._sock)
        environ[ENDS] = self._ends
        environ["wsgi.multithread"] = True
        current = (request.version or (0, 9)) >= (1, 1)
        if current and "HTTP_HOST" not in environ:
            raise RequestRefused(
                bodies.RequestRefusal(400, "BadRequest", "an HTTP/1.1 request requires a Host header")
            )
        expects_continue = current and environ.get("HTTP_EXPECT", "").lower() == "100-continue"
        return Exchange(environ, keep_alive=not request.should_close(), expects_continue=expects_continue)

    def _common_environ(self) -> wsgiref.types.WSGIEnvironment:
        """The common part of the environments on the fast path, built once."""
        if not self._common:
            self._common = {
                **wsgi.base_environ(self._cfg),
                "wsgi.multithread": True,
                "wsgi.url_scheme": "https" if isinstance(self._sock, sockets.TlsSocket) else "http",
                "gunicorn.socket": self._sock,
                # Not a method: the environment is kept, and no connection must wait for the collector.
                HUNG_UP: functools.partial(_hung_up, self._sock),
                ENDS: self._ends,
                "REQUEST_METHOD": "POST",
                "QUERY_STRING": "",
                "SCRIPT_NAME": "",
                "SERVER_PROTOCOL": "HTTP/1.1",
                "REMOTE_ADDR": self._client[0],
                "REMOTE_PORT": str(self._client[1]),
                "SERVER_NAME": self._server[0],
                "SERVER_PORT": str(self._server[1]),
            }
        return self._common


def _hung_up(sock: socket.socket) -> bool:
    """Whether the client has closed the connection, or its half of it, as Go's HTTP server sees it.

    Nothing is read: what a client sends behind its request stays for the next one.
    """
    poller = select.poll()
    try:
        poller.register(sock, _ENDED)
        return bool(poller.poll(0))
    except (OSError, ValueError):
        return True


def _refusal(error: Exception) -> bodies.RequestRefusal:
    for kind, status, reason_code in _REFUSALS:
        if isinstance(error, kind):
            return bodies.RequestRefusal(status, reason_code, str(error))
    return bodies.RequestRefusal(400, "BadRequest", f"invalid HTTP request: {error}")


@functools.lru_cache(2)
def _common_headers(second: int, keep_alive: bool) -> str:
    """The headers of every response; ``second`` is a POSIX time."""
    connection = "keep-alive" if keep_alive else "close"
    return f"Server: {SERVER}\r\nDate: {util.http_date(second)}\r\nConnection: {connection}"
