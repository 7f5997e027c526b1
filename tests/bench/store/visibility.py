"""The delay until an event is in the snapshot of every process that follows the log.

The followers are separate processes, as extenders are. The time of an event runs from the start of its append
until the slowest follower has applied it. All processes read the machine's monotonic clock. The first second,
in which all processes warm up, does not count.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import msgspec

from app import settings
from app.domain import snapshots
from app.store import schemas, stores
from app.store.log import batches, readers
from app.store.server import embedded
from app.store.server.connections import connect
from tests.bench.data import pod_churn
from tests.support import declared

CLUSTER = "visible"
FOLLOWERS = 3
RATE = 1_000
_ROOT = pathlib.Path(__file__).parents[3]


def measure_visibility(seconds: float = 10.0, *, rate: int = RATE, followers: int = FOLLOWERS) -> float:
    """Milliseconds within which 99 of 100 events were in every follower's snapshot."""
    with TemporaryDirectory(prefix="topolog-") as folder, contextlib.ExitStack() as stack:
        server = embedded.Server(pathlib.Path(folder), append_only=True)
        stack.callback(server.stop)
        with connect(server.url) as client:
            schemas.migrate(client, declared.names(CLUSTER), declared.SCHEMA)
        reading = [stack.enter_context(_follower(server.url)) for _ in range(followers)]
        begun = _written(server.url, round((1 + seconds) * rate), rate)
        seen = [_answered(reader, len(begun)) for reader in reading]
        last = [max(times) - start for start, *times in zip(begun, *seen, strict=True)][rate:]
        p99: float = statistics.quantiles(last, n=100)[98]
        return p99 / 1e6


def _written(url: str, count: int, rate: int) -> list[int]:
    """Append events one by one at an even rate; the start of each append (nanoseconds)."""
    store = stores.open_store(settings.Store(url=url), schema=declared.SCHEMA, cluster=CLUSTER)
    begun = []
    first = time.monotonic_ns()
    for number, event in zip(range(count), pod_churn.history(), strict=False):
        due = first + number * 1_000_000_000 // rate
        while (early := due - time.monotonic_ns()) > 0:
            time.sleep(early / 1e9)
        begun.append(time.monotonic_ns())
        store.log.append(batches.Batch(events=[event]))
    store.close()
    return begun


@contextlib.contextmanager
def _follower(url: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.store.visibility", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    try:
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
    finally:
        process.kill()


def _answered(process: subprocess.Popen[bytes], count: int) -> list[int]:
    """The times at which this follower applied each event (nanoseconds)."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"%d\n" % count)
    process.stdin.flush()
    return msgspec.json.decode(process.stdout.readline(), type=list[int])


def _follow(url: str) -> None:
    store = stores.open_store(settings.Store(url=url), schema=declared.SCHEMA, cluster=CLUSTER)
    times: list[int] = []

    def seen(_: snapshots.Snapshot, __: snapshots.Snapshot, ___: readers.Entry) -> None:
        times.append(time.monotonic_ns())

    store.follower.subscribe(seen)
    store.start()
    store.follower.wait_until_caught_up(timeout=10)
    print("following", flush=True)
    count = int(sys.stdin.readline())
    while len(times) < count:
        time.sleep(0.01)
    print(msgspec.json.encode(times).decode(), flush=True)
    store.close()


if __name__ == "__main__":
    if sys.argv[1:]:
        _follow(sys.argv[1])
    else:
        print(f"{measure_visibility():.2f} ms")
