"""A real process of ``topolog view`` on a store, reached without TLS on the loopback."""

import contextlib
import errno
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping

from tests.support import child_processes, polling, process_trees

_PATIENCE = 60.0 * polling.PATIENCE


class Viewer:
    """The process and its address; it can be killed and started again at the same port."""

    def __init__(self, environ: Mapping[str, str], log: pathlib.Path) -> None:
        first = child_processes.free_port(row=2)
        self.url = f"http://127.0.0.1:{first}"
        self._health = first + 1
        self._log = log
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TOPOLOG_")}
        self._environ = {
            **kept,
            **environ,
            "TOPOLOG_SERVER_BIND": "127.0.0.1",
            "TOPOLOG_SERVER_INSECURE": "true",
            "TOPOLOG_SERVER_HEALTH_PORT": str(self._health),
            "TOPOLOG_VIEW_PORT": str(first),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", "view"], env=self._environ, stdout=out, stderr=out
            )
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self._health}/readyz", timeout=2).close()
                return
            time.sleep(0.1)
        raise AssertionError(f"topolog view did not become ready:\n{self._log.read_text()[-4000:]}")

    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    def metrics(self) -> str:
        """What Prometheus would scrape."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._health}/metrics", timeout=20) as reply:
            return str(reply.read(), "utf-8")

    @contextlib.contextmanager
    def halted(self) -> Iterator[None]:
        """Stop it and its workers as SIGSTOP does; they continue after the block."""
        assert self.process is not None
        pids = (self.process.pid, *process_trees.descendants(self.process.pid))
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def stop(self, *, kill: bool = False) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait(30)
            self.process = None
            # Its workers end with it, but later: one that still answers would pass for the next process.
            polling.eventually(lambda: not self._listens(), "its ports are closed")
            child_processes.refuse_crashes(self._log)

    def _listens(self) -> bool:
        """Whether a process accepts connections at one of the ports."""
        for port in (self._health - 1, self._health):
            with socket.socket() as probe:
                probe.settimeout(1.0)
                if probe.connect_ex(("127.0.0.1", port)) != errno.ECONNREFUSED:
                    return True
        return False


@contextlib.contextmanager
def running(
    store: str, cluster: str, folder: pathlib.Path, *, nice: int = 1, **environ: str
) -> Iterator[Viewer]:
    """The process on the cluster of a store; ``environ``: further variables.

    At its usual priority it would get a few percent of a core beside other tests, and not be ready in time.
    """
    chosen = {"TOPOLOG_STORE_URL": store, "TOPOLOG_CLUSTER": cluster}
    chosen |= {"TOPOLOG_VIEW_NICE": str(nice), "TOPOLOG_VIEW_IDLE": "false"}
    made = Viewer({**chosen, **environ}, folder / "view.log")
    try:
        made.start()
        yield made
    finally:
        made.stop()
