"""A request whose head has come, and its answer.

gunicorn understands whatever may be said in HTTP, and takes longer over it than a call of some hundred names
takes to be decided. A POST of JSON is always spelled alike by net/http, which kube-scheduler is built with,
so that one pattern knows it; what differs from that by a single letter is left to gunicorn's parser. An
application cannot tell who read its request, and the answer is written in one way for both.
"""

import functools
import io
import json
import re
import time
import wsgiref.types
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Final

from gunicorn import SERVER, config, util
from gunicorn.http import errors, message, unreader, wsgi

from app.serving import bodies, channels

Application = Callable[[wsgiref.types.WSGIEnvironment, Any], Iterable[bytes]]
HEAD = re.compile(
    rb"POST ((?:/[\w.-]{1,255}){1,8}) HTTP/1\.1\r\n"
    rb"Host: ([\w.:\[\]-]{1,255})\r\n"
    rb"User-Agent: ([\x21-\x7e]{1,64}(?: [\x21-\x7e]{1,64}){0,8})\r\n"
    rb"Content-Length: (\d{1,12})\r\n"
    rb"Content-Type: (application/json)\r\n"
    rb"(?:Accept-Encoding: (gzip)\r\n)?\r\n"
)
"""All of a head that is spelled as usual."""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_LONG: Final = bodies.Refusal(431, "HeadersTooLarge", "the head of the request is too large")
_PLACES = ("PATH_INFO", "HTTP_HOST", "HTTP_USER_AGENT", "CONTENT_LENGTH", "CONTENT_TYPE")
_REFUSALS: Final = (
    (errors.LimitRequestLine, 414, "PathTooLong"),
    (errors.LimitRequestHeaders, 431, "HeadersTooLarge"),
)


class _Unsent:
    """In the place of a socket: gunicorn sends 100 Continue at once, whether the body is wanted or not."""

    def send(self, data: bytes) -> int:
        """Send nothing."""
        return len(data)


_UNSENT: Any = _Unsent()


class Refused(Exception):
    """A request that is answered without the application, and is the last one of its connection."""

    def __init__(self, refusal: bodies.Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Exchange:
    """One request and its answer. `lasting`: HTTP allows another request behind it."""

    def __init__(
        self, environ: wsgiref.types.WSGIEnvironment, *, lasting: bool = True, expectant: bool = False
    ) -> None:
        """`expectant`: the client waits for 100 Continue before it sends the body."""
        self.environ = environ
        self.lasting = lasting
        self.expectant = expectant
        self.verb = False
        self.length = 0
        self.filled = 0
        self.placed = False
        """The body has a place (bodies.Turnstile)."""
        self._body = io.BytesIO()
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self._written: list[bytes] = []

    def fill(self, held: bytes) -> bytes:
        """Take what has come of the body already; return what is behind it."""
        # Received where they stay: with whole nodes, each copy saved is a tenth of the time.
        self._body = io.BytesIO(bytes(self.length))
        self.environ["wsgi.input"] = self._body
        taken = min(len(held), self.length)
        with self._body.getbuffer() as view:
            view[:taken] = held[:taken]
        self.filled = taken
        return held[taken:]

    def missing(self) -> memoryview:
        """Return the part of the body that has yet to come, to be received into."""
        return self._body.getbuffer()[self.filled :]

    def run(self, application: Application, *, lasting: bool) -> tuple[bytes, bytes]:
        """Return head and body of the application's answer; `lasting`: the connection stays open behind it.

        Raises what the application raises, and ValueError for headers that must not be sent.
        """
        answer = application(self.environ, self._start)
        try:
            body = b"".join((*self._written, *answer))
        finally:
            close = getattr(answer, "close", None)
            if close is not None:
                close()
        bodiless = self.environ.get("REQUEST_METHOD") == "HEAD"
        head = written(self._status, self._headers, None if bodiless else len(body), lasting=lasting)
        return head, b"" if bodiless else body

    def _start(
        self, status: str, headers: list[tuple[str, str]], _: object = None, /
    ) -> Callable[[bytes], object]:
        self._status, self._headers = status, headers
        return self._written.append


def written(status: str, given: Iterable[tuple[str, str]], length: int | None, *, lasting: bool) -> bytes:
    """Return the head of an answer of so many bytes, or of one to HEAD. Raises ValueError for bad headers."""
    headers = [(name, value) for name, value in given if not util.is_hoppish(name)]
    announced = [value for name, value in headers if name.lower() == "content-length"]
    if not announced:
        headers.append(("Content-Length", str(length or 0)))
    elif length is not None and announced != [str(length)]:
        raise ValueError(f"the answer has {length} bytes, and announces {', '.join(announced)}")
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
    if not all(map(str.isprintable, lines)):
        raise ValueError("a header of the answer holds a character that is not printable")
    return "\r\n".join((*lines, _general(int(time.time()), lasting), "", "")).encode("latin-1")


def refused(refusal: bodies.Refusal, *, lasting: bool = False) -> tuple[bytes, bytes]:
    """Return head and body of the answer to a request that is refused."""
    status = HTTPStatus(refusal.status)
    body = json.dumps({"message": refusal.message, "reasonCode": refusal.reason_code}).encode()
    headers = [("Content-Type", "application/json"), *refusal.headers]
    return written(f"{status.value} {status.phrase}", headers, len(body), lasting=lasting), body


class Reading:
    """What the requests of one connection are read with, and what their environments have in common."""

    def __init__(
        self,
        cfg: config.Config,
        sock: object,
        client: tuple[str, int],
        server: tuple[str, int],
    ) -> None:
        self._cfg = cfg
        self._sock = sock
        self._client = client
        self._server = server
        self._same: wsgiref.types.WSGIEnvironment = {}

    def read(self, head: bytes) -> Exchange:
        """Return the request whose head this is. Raises Refused."""
        found = HEAD.fullmatch(head)
        if found is None:
            return self._parsed(head)
        *values, encoding = (value.decode() if value is not None else None for value in found.groups())
        environ = {**self._usual(), **dict(zip(_PLACES, values, strict=True)), "RAW_URI": values[0]}
        if encoding is not None:
            environ["HTTP_ACCEPT_ENCODING"] = encoding
        return Exchange(environ)

    def _parsed(self, head: bytes) -> Exchange:
        try:
            request = message.Request(self._cfg, unreader.IterUnreader([head]), self._client)
        except (errors.ParseException, errors.NoMoreData, StopIteration) as error:
            raise Refused(_refusal(error)) from error
        _, made = wsgi.create(request, _UNSENT, self._client, self._server, self._cfg)
        environ = dict(made)
        environ["gunicorn.socket"] = self._sock
        environ["wsgi.multithread"] = True
        current = (request.version or (0, 9)) >= (1, 1)
        if current and "HTTP_HOST" not in environ:
            raise Refused(bodies.Refusal(400, "BadRequest", "a request of HTTP/1.1 names its Host"))
        expectant = current and environ.get("HTTP_EXPECT", "").lower() == "100-continue"
        return Exchange(environ, lasting=not request.should_close(), expectant=expectant)

    def _usual(self) -> wsgiref.types.WSGIEnvironment:
        """What all requests that are spelled as usual have in common, made once."""
        if not self._same:
            self._same = {
                **wsgi.base_environ(self._cfg),
                "wsgi.multithread": True,
                "wsgi.url_scheme": "https" if isinstance(self._sock, channels.Channel) else "http",
                "gunicorn.socket": self._sock,
                "REQUEST_METHOD": "POST",
                "QUERY_STRING": "",
                "SCRIPT_NAME": "",
                "SERVER_PROTOCOL": "HTTP/1.1",
                "REMOTE_ADDR": self._client[0],
                "REMOTE_PORT": str(self._client[1]),
                "SERVER_NAME": self._server[0],
                "SERVER_PORT": str(self._server[1]),
            }
        return self._same


def _refusal(error: Exception) -> bodies.Refusal:
    for kind, status, reason_code in _REFUSALS:
        if isinstance(error, kind):
            return bodies.Refusal(status, reason_code, str(error))
    return bodies.Refusal(400, "BadRequest", f"the request is not HTTP that can be read: {error}")


@functools.lru_cache(2)
def _general(second: int, lasting: bool) -> str:
    """The headers that every answer has; ``second`` is a POSIX time."""
    stays = "keep-alive" if lasting else "close"
    return f"Server: {SERVER}\r\nDate: {util.http_date(second)}\r\nConnection: {stays}"
