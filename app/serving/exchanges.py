"""A call in the words of Go's net/http, which kube-scheduler is built with: read and answered in few steps.

gunicorn understands whatever may be said in HTTP, and takes longer over it than a call of some hundred names
takes to be decided. A POST of JSON is always spelled alike by net/http, so that one pattern knows it; what
differs from that by a single letter is left to gunicorn. An application cannot tell who read its request.
"""

import functools
import re
import time
import wsgiref.types
from collections.abc import Callable, Iterable
from typing import Any

from gunicorn import SERVER, util
from gunicorn.http import wsgi

from app.serving import channels, connections, deadlines

Application = Callable[[wsgiref.types.WSGIEnvironment, Any], Iterable[bytes]]
LEFT_UNREAD = 64 * 1024
"""So much of a body that the application did not want is read, to keep the connection."""
HEAD = re.compile(
    rb"POST ((?:/[\w.-]{1,255}){1,8}) HTTP/1\.1\r\n"
    rb"Host: ([\w.:\[\]-]{1,255})\r\n"
    rb"User-Agent: ([\x21-\x7e]{1,64}(?: [\x21-\x7e]{1,64}){0,8})\r\n"
    rb"Content-Length: (\d{1,12})\r\n"
    rb"Content-Type: (application/json)\r\n"
    rb"(?:Accept-Encoding: (gzip)\r\n)?\r\n"
)
"""All of a head that is spelled as usual."""
_PLACES = ("PATH_INFO", "HTTP_HOST", "HTTP_USER_AGENT", "CONTENT_LENGTH", "CONTENT_TYPE")


class Exchange:
    """One request and its answer, over a connection that stays."""

    def __init__(
        self, channel: channels.Channel, environ: wsgiref.types.WSGIEnvironment, payload: deadlines.Payload
    ) -> None:
        self._channel = channel
        self._environ = environ
        self._payload = payload
        self._status = ""
        self._headers: list[tuple[str, str]] = []
        self._written: list[bytes] = []

    def run(self, application: Application) -> bool:
        """Answer the request; return whether the next one can follow. All of the answer is sent at once.

        Raises what the application raises, ValueError for headers that must not be sent, and OSError.
        """
        answer = application(self._environ, self._start)
        try:
            body = b"".join((*self._written, *answer))
        finally:
            close = getattr(answer, "close", None)
            if close is not None:
                close()
        self._channel.reply(self._head(len(body)), body)
        return self._payload.finished(LEFT_UNREAD)

    def _start(
        self, status: str, headers: list[tuple[str, str]], _: object = None, /
    ) -> Callable[[bytes], object]:
        self._status, self._headers = status, headers
        return self._written.append

    def _head(self, length: int) -> bytes:
        headers = [(name, value) for name, value in self._headers if not util.is_hoppish(name)]
        announced = [value for name, value in headers if name.lower() == "content-length"]
        if not announced:
            headers.append(("Content-Length", str(length)))
        elif announced != [str(length)]:
            raise ValueError(f"the answer has {length} bytes, and announces {', '.join(announced)}")
        lines = [f"HTTP/1.1 {self._status}", *(f"{name}: {value}" for name, value in headers)]
        if not all(map(str.isprintable, lines)):
            raise ValueError("a header of the answer holds a character that is not printable")
        return "\r\n".join((*lines, _general(int(time.time())), "", "")).encode("latin-1")


def taken(conn: connections.Connection) -> Exchange | None:
    """The request whose head has come, if it is spelled as usual; otherwise it stays for gunicorn."""
    channel = conn.sock
    if not isinstance(channel, channels.Channel):
        return None
    came = conn.reader.take_buffered()
    found = HEAD.match(came)
    conn.reader.unread(came if found is None else came[found.end() :])
    if found is None:
        return None
    channel.settimeout(conn.limits.answer)
    *values, encoding = (value.decode() if value is not None else None for value in found.groups())
    environ = {**_same(conn), **dict(zip(_PLACES, values, strict=True)), "RAW_URI": values[0]}
    if encoding is not None:
        environ["HTTP_ACCEPT_ENCODING"] = encoding
    environ["wsgi.input"] = payload = deadlines.Payload(conn.reader, int(found[4]))
    return Exchange(channel, environ, payload)


def _same(conn: connections.Connection) -> wsgiref.types.WSGIEnvironment:
    """What all such requests of a connection have in common, made once."""
    if not conn.same:
        client, server = conn.addresses
        conn.same = {
            **wsgi.base_environ(conn.cfg),
            "wsgi.multithread": True,
            "wsgi.url_scheme": "https",
            "gunicorn.socket": conn.sock,
            "REQUEST_METHOD": "POST",
            "QUERY_STRING": "",
            "SCRIPT_NAME": "",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": client[0],
            "REMOTE_PORT": str(client[1]),
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
        }
    return conn.same


@functools.lru_cache(1)
def _general(second: int) -> str:
    """The headers that every answer has; ``second`` is a POSIX time."""
    return f"Server: {SERVER}\r\nDate: {util.http_date(second)}\r\nConnection: keep-alive"
