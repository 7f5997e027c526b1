"""The documentation site: built as `make docs` does, and served on this machine."""

import contextlib
import functools
import http.server
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import app

SOURCE = "https://source.example/v1"
"""Where links to code lead."""
_ROOT = pathlib.Path(app.__file__).parent.parent


def build(folder: pathlib.Path) -> pathlib.Path:
    """Build the site below a folder; a warning is an error."""
    options = ["-c", "docs/site", "--nitpicky", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "-d", f"{folder}/read", ".", str(folder / "html")],
        cwd=_ROOT,
        env={**os.environ, "TOPOLOG_DOCS_SOURCE": SOURCE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


class _Files(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each request."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[str]:
    """The URL at which the files of a folder are served."""
    handler = functools.partial(_Files, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()
