"""Serves an application over HTTP from threads of this process."""

import contextlib
import threading
from collections.abc import Iterator

import flask
from werkzeug import serving


class _Silent(serving.WSGIRequestHandler):
    """Logs no request: werkzeug would write to the standard error of a command under test, after its end."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@contextlib.contextmanager
def serving_http(app: flask.Flask) -> Iterator[str]:
    """Serve the application at a free port of the loopback interface; yields its URL."""
    server = serving.make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Silent)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
