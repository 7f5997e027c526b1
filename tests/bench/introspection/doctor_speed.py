"""The time of `topolog doctor all` in a cluster with many pods, by the clock.

The simulated API server and the extender run in processes of their own, and so does the command: the start
of its interpreter counts.
"""

import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from app.simulation.apiserver import apiservers
from tests.support import commands, declared
from tests.support.doctor import clusters
from tests.support.kube import large_populations

NODES, PODS = 500, 5_000
_TURNS = 3
_FILES = {"CERT": "viewer.crt", "KEY": "viewer.key", "CA": "ca.crt"}


def measure(extender: str, tls: pathlib.Path, folder: pathlib.Path) -> float:
    """Seconds of a run, the median of some. ``extender``: its URL; ``tls``: the certificates for it."""
    with _serving() as url:
        environ = {
            "TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(folder, url),
            "TOPOLOG_CLIENT_URL": extender,
            **{f"TOPOLOG_CLIENT_{key}": str(tls / file) for key, file in _FILES.items()},
        }
        return statistics.median(_run(environ) for _ in range(_TURNS))


def _run(environ: dict[str, str]) -> float:
    begun = time.monotonic()
    done = commands.topolog("doctor", "all", "-o", "json", **environ)
    took = time.monotonic() - begun
    seen = {one["id"] for one in json.loads(done.stdout)["checks"] if one["verdict"] != "unsure"}
    # Of the pods, of the log, and of the extender's API.
    assert {"P03", "S15", "R10"} <= seen, done.stdout
    return took


@contextlib.contextmanager
def _serving() -> Iterator[str]:
    """The URL of an API server with the objects, in a process that ends with this block."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.introspection.doctor_speed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate()


def _serve() -> None:
    with apiservers.ApiServer(declared.SCHEMA, further=clusters.FURTHER) as server:
        server.objects.load("nodes", large_populations.nodes(NODES))
        server.objects.load("pods", large_populations.pods(PODS, on=NODES))
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve()
