"""Viewers that send heavy questions, each as soon as its last one is answered.

``python -m tests.bench.introspection.viewer_load PORT TLS COUNT WHAT`` is the process of load_clients.
"""

import contextlib
import http.client
import itertools
import json
import pathlib
import sys
import urllib.parse
from collections.abc import Iterator

from tests.bench import load_clients

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
    port, log = urllib.parse.urlsplit(url).port, folder / f"viewers-{count}.log"
    with load_clients.running(__name__, port, tls, count, what, log=log) as statuses:
        yield
    # Without successful replies the measurement would mean nothing.
    assert statuses["200"] > 0, statuses
    assert set(statuses) <= {"200", "429"}, statuses


class Viewers(load_clients.Clients):
    """The viewers; ``what`` they request."""

    def __init__(self, port: int, tls: pathlib.Path, count: int, what: str) -> None:
        super().__init__(port, tls, count)
        self._paths = SCRUBBED if what == SCRUB else (*PATHS, self._explanation())

    def _run(self, index: int) -> None:
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
            self._count(str(response.status))
        connection.close()

    def _explanation(self) -> str:
        """The path that explains the latest filter."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=60)
        connection.request("GET", "/apis/v1/decisions?limit=1&verb=filter")
        (found,) = json.loads(connection.getresponse().read())["items"]
        connection.close()
        pod = found["pod"]
        return f"/apis/v1/pods/{pod['namespace']}/{pod['name']}/explain?decision={found['id']}"


if __name__ == "__main__":
    port, tls, count, what = sys.argv[1:]
    Viewers(int(port), pathlib.Path(tls), int(count), what).serve()
