"""A proxy on the loopback that shows the viewer's certificate, so that a browser needs none.

Any page and any program of this machine can reach a port of the loopback. So a request is passed on only with
the secret of the address that was opened (then a cookie), for the host names of the loopback (a foreign name
that resolves to it is refused), and for what a viewer may ask.
"""

import hmac
import http.server
import secrets
import urllib.parse
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from app.cli import exits
from app.cli.client import api_client
from app.serving.access import roles
from app.serving.http import bodies

_SILENCE: Final = 60.0
_AGAIN: Final = 2
"""Seconds after which a browser asks again for what a server that is away could not answer."""
_ASKED: Final = ("accept", "accept-encoding", "content-type", "if-none-match", "last-event-id")
_ANSWERED: Final = frozenset(
    (
        *("cache-control", "content-encoding", "content-security-policy", "content-type", "etag", "location"),
        *("cross-origin-opener-policy", "cross-origin-resource-policy", "referrer-policy", "retry-after"),
        *("vary", "x-content-type-options", "x-topolog-age", "x-topolog-oldest", "x-topolog-position"),
    )
)


class Proxy(http.server.ThreadingHTTPServer):
    """Listens on a port of the loopback; 0 is any free one."""

    daemon_threads = True

    def __init__(self, client: api_client.ExtenderClient, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.client = client
        self.token = secrets.token_urlsafe(24)

    @property
    def number(self) -> int:
        """The port."""
        return int(self.server_address[1])

    @property
    def hosts(self) -> frozenset[str]:
        """The values of Host that are served."""
        return frozenset((f"127.0.0.1:{self.number}", f"localhost:{self.number}"))

    @property
    def cookie(self) -> str:
        """The name of the cookie: cookies do not distinguish ports."""
        return f"topolog-{self.number}"

    def address(self, path: str) -> str:
        """The address to open, with the secret."""
        separator = "&" if "?" in path else "?"
        return f"http://127.0.0.1:{self.number}{path}{separator}token={self.token}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"
    timeout = 120

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._refuse("the proxy passes on questions only")

    def do_DELETE(self) -> None:
        self._refuse("the proxy passes on questions only")

    def log_message(self, *_: object) -> None:
        """Write nothing: the address holds the secret."""

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        if self.headers.get("Host", "") not in self.server.hosts:
            self._refuse("this name is not served: open the address that `topolog dashboard` printed")
        elif (given := urllib.parse.parse_qs(query).get("token")) is not None:
            self._enter(path, query, given[0])
        elif not self._known():
            self._refuse("the secret is missing: open the address that `topolog dashboard` printed")
        elif self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") or self._foreign():
            self._refuse("requests of other pages are not passed on")
        elif self.command == "POST" and path not in roles.QUESTIONS:
            self._refuse("the proxy passes on questions only")
        else:
            self._pass_on()

    def _known(self) -> bool:
        for part in self.headers.get("Cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.server.cookie and hmac.compare_digest(value.encode(), self.server.token.encode()):
                return True
        return False

    def _foreign(self) -> bool:
        origin = self.headers.get("Origin")
        return origin is not None and origin.removeprefix("http://") not in self.server.hosts

    def _enter(self, path: str, query: str, token: str) -> None:
        """Exchange the secret of the address for a cookie."""
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse("the secret is wrong: open the address that `topolog dashboard` printed")
            return
        rest = [(name, value) for name, value in urllib.parse.parse_qsl(query) if name != "token"]
        # One slash: // would lead to another host.
        target = "/" + path.lstrip("/") + (f"?{urllib.parse.urlencode(rest)}" if rest else "")
        self.send_response(HTTPStatus.FOUND)
        self.send_header("Location", target)
        self.send_header(
            "Set-Cookie", f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
        )
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _pass_on(self) -> None:
        body = None
        if self.command == "POST":
            length, most = self.headers.get("Content-Length", ""), bodies.QUESTION
            if not length.isdecimal() or len(length) > len(str(most)) or int(length) > most:
                self._refuse(f"a question has a Content-Length of at most {most} bytes")
                return
            body = self.rfile.read(int(length))
        asked = {name: value for name in _ASKED if (value := self.headers.get(name)) is not None}
        client, begun = self.server.client, False
        try:
            with client.stream(self.command, self.path, headers=asked, body=body, silence=_SILENCE) as reply:
                begun = True
                self._head(reply.status, reply.headers)
                while self.command != "HEAD" and (piece := reply.read1()):
                    self.wfile.write(piece)
                    self.wfile.flush()
        except exits.Failed as failed:
            if not begun:
                self._answer(HTTPStatus.BAD_GATEWAY, "Unreachable", str(failed), again=_AGAIN)
        except OSError:
            pass  # The browser hung up.
        self.close_connection = True

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() in _ANSWERED or name.lower() == "content-length":
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()

    def _refuse(self, message: str) -> None:
        self._answer(HTTPStatus.FORBIDDEN, "Forbidden", message)
        self.close_connection = True

    def _answer(self, status: HTTPStatus, code: str, message: str, again: int = 0) -> None:
        body = f'{{"message": "{message.translate(_QUOTED)}", "reasonCode": "{code}"}}\n'.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if again:
            self.send_header("Retry-After", str(again))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


_QUOTED = str.maketrans({'"': "'", "\\": "/", "\n": " "})
