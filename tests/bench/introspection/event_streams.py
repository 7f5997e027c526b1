"""Streams of summaries beside 1,000 events a second: the CPU of all of them, and how late an event is seen.

Another process appends: ``python -m tests.bench.introspection.event_streams STORE RATE SECONDS``.
"""

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import flask.testing

from app import settings
from app.domain import events, model
from app.store import stores
from app.store.log import batches
from app.store.server import embedded
from tests.bench.data import bench_cluster
from tests.support import declared
from tests.support.extender import api_worlds
from tests.support.store import filled_stores

CLUSTER = "streams"
STREAMS, RATE, SECONDS, TICK_MS = 32, 1_000, 20.0, 250
_EACH = 8
"""Streams of one identity."""
_BATCHES = 50
"""Appended batches a second."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """The result of one run."""

    share: float
    """CPU of the process that serves the streams, as a share of a core."""
    alone: float
    """The same without streams: it follows the log."""
    late_ms: float
    """Milliseconds from the append of an event to the summary that covers it, 99th percentile."""
    events: int
    """Events that every stream has covered."""


@dataclass
class _Reader:
    """One stream: when each summary arrived, and up to which offset it goes."""

    client: flask.testing.FlaskClient
    ended: threading.Event
    seen: list[tuple[float, int]] = field(default_factory=list)

    def read(self) -> None:
        reply = self.client.get(f"/apis/v1/watch?tick={TICK_MS}", buffered=False)
        for message in reply.iter_encoded():
            if b"event: head" in message:
                offset = int(message.split(b"\n", 1)[0].rpartition(b"/")[2])
                self.seen.append((1000 * time.time(), offset))
            if self.ended.is_set():
                break
        reply.close()


def measure(streams: int = STREAMS, rate: int = RATE, seconds: float = SECONDS) -> Streamed:
    """Measure the process with and without streams, each for so many seconds."""
    server = embedded.Server()
    try:
        filled_stores.fill(server.url, CLUSTER, bench_cluster.facts(100, 1_000))
        alone = _run(server.url, 0, rate, seconds)
        return _run(server.url, streams, rate, seconds, alone.share)
    finally:
        server.stop()


def _run(url: str, streams: int, rate: int, seconds: float, alone: float = 0.0) -> Streamed:
    store = _opened(url)
    store.start()
    try:
        first = store.follower.catch_up(timeout=60).offset
        ended, callers = threading.Event(), itertools.count()
        world = api_worlds.world(
            store, identity=lambda: f"viewer-{next(callers) // _EACH}", stream_seconds=seconds + 60
        )
        readers = [_Reader(world.client, ended) for _ in range(streams)]
        threads = [threading.Thread(target=reader.read) for reader in readers]
        for thread in threads:
            thread.start()
        command = [sys.executable, "-m", __name__, url, str(rate), str(seconds)]
        begun, cpu = time.monotonic(), time.process_time()
        subprocess.run(command, check=True)
        share = (time.process_time() - cpu) / (time.monotonic() - begun)
        last = store.follower.catch_up().offset
        time.sleep(4 * TICK_MS / 1000)
        ended.set()
        for thread in threads:
            thread.join()
        entries = store.histories.entries(first + 1, last, limit=last)
        appended = {entry.offset: entry.at_ms for entry in entries}
        late = sorted(itertools.chain.from_iterable(_late(reader.seen, appended) for reader in readers))
        covered = min((reader.seen[-1][1] for reader in readers), default=last) - first
        return Streamed(share, alone, late[len(late) * 99 // 100] if late else 0.0, covered)
    finally:
        store.close()


def _late(seen: list[tuple[float, int]], appended: dict[int, int]) -> Iterator[float]:
    """For each event the time from its append to the first summary that covers it."""
    offset = min(appended, default=0)
    for arrived, until in seen:
        for covered in range(offset, until + 1):
            yield arrived - appended[covered]
        offset = max(offset, until + 1)


def _opened(url: str) -> stores.Store:
    return stores.open_store(
        settings.Store(url=url),
        schema=declared.SCHEMA,
        cluster=CLUSTER,
        indexed=api_worlds.plugins_of_the_seeds().indexed(),
    )


def append(url: str, rate: int, seconds: float) -> None:
    """Append pods that come and go, so many events a second."""
    store = _opened(url)
    try:
        begun, size = time.monotonic(), rate // _BATCHES
        for number in range(round(seconds * _BATCHES)):
            pods = [_pod(number // 2 * size + at) for at in range(size)]
            happened: list[events.AnyEvent] = [
                events.PodSeen(pod=pod)
                if number % 2 == 0
                else events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name)
                for pod in pods
            ]
            store.log.append(batches.Batch(events=happened))
            time.sleep(max(0.0, begun + (number + 1) / _BATCHES - time.monotonic()))
    finally:
        store.close()


def _pod(number: int) -> model.Pod:
    return model.Pod(
        uid=bench_cluster.uid("streamed", number),
        namespace="elsewhere",
        name=f"streamed-{number:06}",
        labels={"app": "streamed"},
    )


if __name__ == "__main__":
    append(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
