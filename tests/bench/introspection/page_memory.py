"""The memory that questions of operators take in an extender: the largest pages, eight at once.

The cluster is the worst case of a large page: 20,000 pending pods, no two of them equal, each refused by
all of 5,000 nodes.
"""

import itertools
import pathlib
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import urllib3

from app.domain import events, model
from app.plugins.workload_policy import policy_model
from app.serving.tls import certificate_issuer
from app.store.server import embedded
from tests.bench.data import bench_cluster
from tests.support import declared, extender_processes
from tests.support.store import filled_stores

NODES, PENDING = 5_000, 20_000
AT_ONCE, TURNS = 8, 3
SETTLED_SECONDS = 30.0
MIB = 1024 * 1024
PATHS = (
    "/apis/v1/pending?limit=1000",
    "/apis/v1/nodes?limit=1000",
    "/apis/v1/topology?levels=topology.kubernetes.io/zone,kubernetes.io/hostname&limit=1000",
    "/apis/v1/events?limit=1000",
    "/apis/v1/plugins/NodeLabelPriority/nodes?limit=1000",
    "/apis/v1/plugins/WorkloadPolicy/policies?limit=1000",
    "/apis/v1/pods/bench/waiting-00000/explain?limit=1000",
)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes above those of the idle extender."""

    peak: int
    """Above a process that has not answered this question yet."""
    left: int
    """Half a minute after all turns, above a process that has answered once and has its threads and pools."""
    slowest: float
    """Seconds of the slowest answer."""


def measure_questions(paths: tuple[str, ...] = PATHS) -> tuple[dict[str, Memory], int]:
    """Path -> memory and time of the answers to eight callers at once, and bytes left by all of them.

    The latter are those half a minute after all paths, above the process before the first one: what the
    first answers to a path leave, for threads, pools and caches, is part of it.
    """
    with TemporaryDirectory(prefix="topolog-") as directory:
        folder = pathlib.Path(directory)
        tls = folder / "tls"
        certificate_issuer.issue(tls, ["127.0.0.1", "localhost"])
        server = embedded.Server()
        try:
            filled_stores.fill(server.url, "questions", facts(NODES, PENDING))
            with extender_processes.running(server.url, "questions", tls, folder) as extender:
                client = _client(tls)
                _asked(client, extender.url + "/apis/v1/pending?limit=1")
                time.sleep(2.0)  # the garbage of the start is collected
                rest = extender.memory()
                measured = {path: _measured(client, extender, path) for path in paths}
                return measured, _settled(extender, rest) - rest
        finally:
            server.stop()


def facts(nodes: int, pending: int) -> Iterator[events.AnyEvent]:
    """The nodes and policies of the benchmark, and pods of a policy without capacity."""
    yield from bench_cluster.facts(nodes, 2_000)
    full = tuple(
        policy_model.Allocation(bench_cluster.rack(number), 0) for number in range(bench_cluster.RACKS)
    )
    yield declared.observed(
        policy_model.WorkloadPolicy(
            uid="full",
            namespace=bench_cluster.NAMESPACE,
            name="full",
            topology_key=bench_cluster.RACK,
            selector=model.Selector(labels={bench_cluster.POLICY_LABEL: "full"}),
            allocations=full,
            type="Required",
        )
    )
    for number in range(pending):
        name = f"waiting-{number:05}"
        labels = {"job-name": name, "batch.kubernetes.io/controller-uid": bench_cluster.uid("job", number)}
        yield events.PodSeen(
            pod=model.Pod(
                uid=bench_cluster.uid("waiting", number),
                namespace=bench_cluster.NAMESPACE,
                name=name,
                labels={**labels, bench_cluster.POLICY_LABEL: "full"},
                owners=(model.Owner("Job", name, bench_cluster.uid("job", number), controller=True),),
                requests={"cpu": 100 + number, "memory": number << 20},
                priority=number,
                created=f"2026-11-02T08:{number // 60 % 60:02}:{number % 60:02}Z",
            )
        )


def _measured(client: urllib3.PoolManager, extender: extender_processes.Extender, path: str) -> Memory:
    rest, ended = extender.memory(), threading.Event()
    highest = [rest]

    def watch() -> None:
        while not ended.wait(0.02):
            highest[0] = max(highest[0], extender.memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        _at_once(client, extender.url + path, AT_ONCE)
        asked_once = _settled(extender, rest)
        slowest = _at_once(client, extender.url + path, AT_ONCE * TURNS)
    finally:
        ended.set()
        watcher.join()
    return Memory(highest[0] - rest, _settled(extender, asked_once) - asked_once, slowest)


def _settled(extender: extender_processes.Extender, rest: int) -> int:
    """Bytes held as soon as the process is idle again, or after the time."""
    deadline = time.monotonic() + SETTLED_SECONDS
    held = extender.memory()
    while held > rest + MIB and time.monotonic() < deadline:
        time.sleep(0.5)
        held = min(held, extender.memory())
    return held


def _at_once(client: urllib3.PoolManager, url: str, calls: int) -> float:
    with ThreadPoolExecutor(AT_ONCE) as callers:
        return max(callers.map(lambda _: _asked(client, url), range(calls)))


def _asked(client: urllib3.PoolManager, url: str) -> float:
    """Repeat the request until it is answered; the seconds of that answer."""
    for _ in itertools.count():
        begun = time.monotonic()
        answer = client.request("GET", url, timeout=60.0, retries=False)
        if answer.status == 200:
            return time.monotonic() - begun
        assert answer.status == 429, answer.data
        time.sleep(0.1)
    raise AssertionError


def _client(tls: pathlib.Path) -> urllib3.PoolManager:
    context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
    context.load_cert_chain(tls / "viewer.crt", tls / "viewer.key")
    return urllib3.PoolManager(ssl_context=context, maxsize=AT_ONCE, block=True)


if __name__ == "__main__":
    by_path, left_by_all = measure_questions(tuple(sys.argv[1:]) or PATHS)
    for asked, memory in by_path.items():
        print(
            f"{asked}: {memory.peak / MIB:.1f} MB above rest, {memory.left / MIB:.1f} MB left,"
            f" slowest {memory.slowest:.2f} s"
        )
    print(f"all: {left_by_all / MIB:.1f} MB left")
