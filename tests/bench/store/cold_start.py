"""From an empty store to readiness: a recorder, an API server with a full cluster, and a follower.

The simulated API server and the follower are separate processes, as in a cluster; the time runs from the
recorder's first request until the follower has applied the last event of the lists.
"""

import contextlib
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

from app import settings
from app.kube.client import clients
from app.kube.watch import kinds
from app.simulation.apiserver import apiservers
from app.store import schemas, stores
from app.store.server import connections, embedded
from tests.support import bind_times, declared
from tests.support.kube import large_populations, plain_access
from workers.recorder import recorders

NODES, PODS = 5_000, 150_000
CLUSTER = "cold"
_ROOT = pathlib.Path(__file__).parents[3]
_LIMIT = 300.0


def measure_cold_start(nodes: int = NODES, pods: int = PODS) -> float:
    """Seconds until all objects are recorded and another process has applied them."""
    with tempfile.TemporaryDirectory(prefix="topolog-cold-") as folder, contextlib.ExitStack() as stack:
        server = embedded.Server(pathlib.Path(folder), append_only=True)
        stack.callback(server.stop)
        client = connections.connect(server.url)
        schemas.migrate(client, declared.names(CLUSTER), declared.SCHEMA)
        client.close()
        serving = stack.enter_context(_process("serve", str(nodes), str(pods)))
        following = stack.enter_context(_process("follow", server.url, str(nodes), str(pods)))
        url = _line(serving)
        _expect(following, "following")
        sys.setswitchinterval(recorders.SWITCH_INTERVAL)  # as the recorder's process does
        begun = time.monotonic()
        with _recorder(server.url, url):
            _expect(following, "followed")
            return time.monotonic() - begun


@contextlib.contextmanager
def _recorder(store_url: str, api_url: str) -> Iterator[recorders.Recorder]:
    store = stores.open_store(settings.Store(url=store_url), schema=declared.SCHEMA, cluster=CLUSTER)
    client = clients.Client(plain_access.of(api_url))
    recorder = recorders.Recorder(store.log, store.follower, client, settle=bind_times.OLD)
    thread = threading.Thread(target=recorder.run, daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        recorder.stop()
        thread.join(10)
        store.close()
        client.close()


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """This module as a process; it ends when its standard input does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.store.cold_start", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    try:
        with process:
            yield process
            if process.stdin is not None:
                process.stdin.close()
    finally:
        process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    return process.stdout.readline().strip() if process.stdout is not None else ""


def _expect(process: subprocess.Popen[str], line: str) -> None:
    found = _line(process)
    if found != line:
        raise RuntimeError(f"expected {line!r} from {process.args!r}, got {found!r}")


def _serve(nodes: int, pods: int) -> None:
    with apiservers.ApiServer(declared.SCHEMA) as server:
        server.objects.load("nodes", large_populations.nodes(nodes))
        server.objects.load("pods", large_populations.pods(pods, on=nodes))
        gc.freeze()
        print(server.url, flush=True)
        sys.stdin.read()


def _follow(url: str, nodes: int, pods: int) -> None:
    store = stores.open_store(
        settings.Store(url=url),
        schema=declared.SCHEMA,
        cluster=CLUSTER,
        indexed=("app",),
    )
    store.follower.catch_up()
    print("following", flush=True)
    end, tail = time.monotonic() + _LIMIT, store.log.reader()
    while time.monotonic() < end:
        snapshot = store.follower.catch_up(timeout=30.0)
        if len(snapshot.listed) == len(kinds.watched(declared.SCHEMA)):
            break
        tail.wait_for_entries(snapshot.offset, milliseconds=1000)
    whole = (len(snapshot.nodes), len(snapshot.pods)) == (nodes, pods)
    print("followed" if whole else f"incomplete: {len(snapshot.pods)} pods", flush=True)
    sys.stdin.read()
    store.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", nodes, pods]:
            _serve(int(nodes), int(pods))
        case ["follow", url, nodes, pods]:
            _follow(url, int(nodes), int(pods))
        case _:
            print(f"{measure_cold_start():.2f} s")
