"""Serves what a kube-scheduler answers to /configz and /metrics."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def serving(configuration: object, started: float | None) -> Iterator[str]:
    """Its URL. ``started``: seconds since 1970 of its start; None if its metrics lack that."""
    metric = "" if started is None else f"process_start_time_seconds {started:e}\n"
    replies = {"/configz": json.dumps(configuration), "/metrics": f"# TYPE a counter\n{metric}"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(replies[self.path].encode())

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
