"""Viewers that send heavy questions, each as soon as its last one is answered.

A process of the lowest priority: ``python -m tests.bench.introspection.viewer_load PORT TLS COUNT WHAT``. It
prints `ready` on standard output once every viewer is connected, and runs until its standard input ends.
"""

import contextlib
import http.client
import itertools
import json
import os
import pathlib
import ssl
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator

NICENESS = 19
PATHS = (
    "/apis/v1/pending?limit=1000",
    "/apis/v1/nodes?limit=1000",
    "/apis/v1/topology",
    "/apis/v1/plugins/WorkloadPolicy/policies",
    "/apis/v1/decisions?limit=1000",
    "/apis/v1/events?limit=1000",
    "/apis/v1/nodes?limit=1000&at=50000",
)
SCRUBBED = (
    *(f"/apis/v1/map?at={offset}&color=pods" for offset in range(20_000, 50_000, 1_777)),
    "/apis/v1/frames?from=30000&to=50000&count=60",
    "/apis/v1/series?of=pods&from=30000&to=50000",
    "/apis/v1/replay",
)
"""The requests of a page whose slider is moved, and of one that replays all decisions."""
PAGES, SCRUB = "pages", "scrub"


@contextlib.contextmanager
def crowd(url: str, tls: pathlib.Path, folder: pathlib.Path, count: int, what: str = PAGES) -> Iterator[None]:
    """``count`` viewers while the block runs; ``what`` they request: large pages, or the past."""
    if not count:
        yield
        return
    port = urllib.parse.urlsplit(url).port
    command = [
        sys.executable,
        "-m",
        "tests.bench.introspection.viewer_load",
        str(port),
        str(tls),
        str(count),
        what,
    ]
    with (folder / f"viewers-{count}.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise AssertionError("the viewers failed to connect: see their log")
        yield
        process.stdin.close()
        statuses = json.loads(process.stdout.read())
    finally:
        process.kill()
        process.wait()
    # Without successful replies the measurement would mean nothing.
    assert statuses["200"] > 0, statuses
    assert set(statuses) <= {"200", "429"}, statuses


class Viewers:
    """The viewers, and the number of replies by status."""

    def __init__(self, port: int, tls: pathlib.Path, count: int, what: str) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
        self._context.load_cert_chain(tls / "viewer.crt", tls / "viewer.key")
        self._paths = SCRUBBED if what == SCRUB else (*PATHS, self._explanation())
        self._statuses: dict[str, int] = {}
        self._lock = threading.Lock()
        self._enough = threading.Event()
        self._barrier = threading.Barrier(count + 1)
        self._threads = [threading.Thread(target=self._ask, args=(index,)) for index in range(count)]

    def start(self) -> None:
        for each in self._threads:
            each.start()
        self._barrier.wait()

    def stop(self) -> dict[str, int]:
        self._enough.set()
        for each in self._threads:
            each.join()
        return self._statuses

    def _ask(self, index: int) -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=60)
        connection.connect()
        self._barrier.wait()
        for path in itertools.islice(itertools.cycle(self._paths), index, None):
            if self._enough.is_set():
                break
            if path.endswith("/replay"):
                connection.request("POST", path, b"{}", {"Content-Type": "application/json"})
            else:
                connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            with self._lock:
                status = str(response.status)
                self._statuses[status] = self._statuses.get(status, 0) + 1
        connection.close()

    def _explanation(self) -> str:
        """The path that explains the latest filter."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=60)
        connection.request("GET", "/apis/v1/decisions?limit=1&verb=filter")
        (found,) = json.loads(connection.getresponse().read())["items"]
        connection.close()
        pod = found["pod"]
        return f"/apis/v1/pods/{pod['namespace']}/{pod['name']}/explain?decision={found['id']}"


def main(port: str, tls: str, count: str, what: str) -> None:
    os.nice(NICENESS)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    viewers = Viewers(int(port), pathlib.Path(tls), int(count), what)
    viewers.start()
    print("ready", flush=True)
    sys.stdin.buffer.read()
    print(json.dumps(viewers.stop()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
