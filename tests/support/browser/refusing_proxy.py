"""A server before a real one: it passes everything on, counts streams, and refuses what a test asks it to."""

import contextlib
import http.client
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http import HTTPStatus


class Server(http.server.ThreadingHTTPServer):
    """Listens on a free port of the loopback."""

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urllib.parse.urlsplit(behind).netloc
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._refused = ("", HTTPStatus.OK, "", 0)
        self._lock = threading.Lock()
        self.streams = 0
        """Streams that browsers hold open."""

    def refuse(self, path: str, status: HTTPStatus, reason: str, times: int) -> None:
        """Answer the next requests for the path with a status and a reason."""
        with self._lock:
            self._refused = (path, status, reason, times)

    @contextlib.contextmanager
    def streaming(self) -> Iterator[None]:
        """Count a stream while the block runs."""
        with self._lock:
            self.streams += 1
        try:
            yield
        finally:
            with self._lock:
                self.streams -= 1

    @property
    def left(self) -> int:
        """How many requests are still to be refused."""
        return self._refused[3]

    def taken(self, path: str) -> tuple[HTTPStatus, str] | None:
        """The status and reason for a request; None if it is passed on."""
        with self._lock:
            refused, status, reason, left = self._refused
            if not left or path.partition("?")[0] != refused:
                return None
            self._refused = (refused, status, reason, left - 1)
            return status, reason


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        refused = self.server.taken(self.path)
        if refused is not None:
            status, reason = refused
            body = json.dumps({"message": f"refused: {reason}", "reasonCode": reason}).encode()
            self._answer(status, {"Content-Type": "application/json", "Retry-After": "1"}, body)
            return
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(self.server.behind, timeout=60)
            connection.request("GET", self.path, headers={"Accept": self.headers.get("Accept", "*/*")})
            with contextlib.closing(connection), connection.getresponse() as reply:
                stream = reply.getheader("Content-Type", "").startswith("text/event-stream")
                self._answer(reply.status, dict(reply.headers), b"" if stream else reply.read())
                if stream:
                    with self.server.streaming():
                        while piece := reply.read1():
                            self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "date", "server", "content-length"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def before(url: str) -> Iterator[Server]:
    """A server before the one at the URL."""
    with Server(url) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
