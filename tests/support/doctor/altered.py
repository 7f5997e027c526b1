"""Serves what a real process serves on its health port, with a part of the text replaced."""

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator

import urllib3


@contextlib.contextmanager
def served(url: str, pattern: str, replacement: str) -> Iterator[str]:
    """The URL of a port that answers as ``url`` does; the pattern has to match its metrics."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply = urllib3.request("GET", url + self.path, retries=False, timeout=10.0)
            text = reply.data.decode()
            if self.path == "/metrics":
                text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
                assert count, f"{pattern} is not in the metrics of {url}"
            self.send_response(reply.status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            """Requests are not logged."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
