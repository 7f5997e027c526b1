"""The size of a pod, a node and an event: in the store, in a process that follows the log, in the archive."""

import gc
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from app import settings
from app.domain import snapshots
from app.store import snapshot_format, stores
from app.store.server import embedded
from tests.bench.data import bench_cluster, pod_churn
from tests.bench.store import checkpoint_restart
from tests.support import declared
from tests.support.store import filled_stores, materialised

NODES, PODS, EVENTS = 1_000, 50_000, 100_000
_ROOT = Path(__file__).parents[3]
_SEGMENT = 20_000


def measure_sizes(nodes: int = NODES, pods: int = PODS, count: int = EVENTS) -> Mapping[str, float]:
    """Object -> bytes."""
    with TemporaryDirectory(prefix="topolog-") as directory:
        return {**_events(Path(directory), count), **_objects(nodes, pods)}


def _events(folder: Path, count: int) -> Mapping[str, float]:
    server = embedded.Server(folder / "server", append_only=True)
    archive = folder / "archive"
    try:
        filled_stores.prepare(server.url, "sizes")
        store = stores.open_store(
            settings.Store(url=server.url),
            schema=declared.SCHEMA,
            cluster="sizes",
            archive=str(archive),
        )
        history = [event for _, event in zip(range(count), pod_churn.history(), strict=False)]
        before = _used(store)
        checkpoint_restart.append(
            store.log, snapshots.empty(schema=declared.SCHEMA, incarnation=store.log.incarnation), history
        )
        subjects = len(materialised.versions(store))
        in_log = int(store.client.memory_usage(store.keys.log, samples=0) or 0)
        views = _used(store) - before - in_log
        assert store.archive is not None
        for after in range(0, count, _SEGMENT):
            raws = store.log.raws(after, min(count, after + _SEGMENT))
            store.archive.keep_segment(raws, store.log.incarnation)
        archived = sum(store.archive.storage.size(file.name) for file in store.archive.files())
        store.close()
    finally:
        server.stop()
    written = sum(file.stat().st_size for file in (folder / "server").rglob("*") if file.is_file())
    return {
        "an event in the log": in_log / count,
        "an object in the views": views / subjects,
        "an event in the append-only file": written / count,
        "an event in the archive": archived / count,
    }


def _used(store: stores.Store) -> int:
    return int(store.client.info("memory")["used_memory"])


def _objects(nodes: int, pods: int) -> Mapping[str, float]:
    empty, _ = _held(0, 0)
    with_nodes, small = _held(nodes, 0)
    filled, large = _held(nodes, pods)
    return {
        "a process that follows an empty cluster": empty,
        "a node in a process that follows": (with_nodes - empty) / nodes,
        "a pod in a process that follows": (filled - with_nodes) / pods,
        "a pod in a checkpoint": (large - small) / pods,
    }


def _held(nodes: int, pods: int) -> tuple[int, int]:
    """(bytes held by a process that follows a cluster of this size, bytes of its checkpoint)."""
    server = embedded.Server()
    try:
        cluster = "held"
        snapshot = filled_stores.fill(server.url, cluster, bench_cluster.facts(nodes, pods))
        found = subprocess.run(
            [sys.executable, "-m", "tests.bench.store.sizes", server.url, cluster],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            check=True,
        )
        return int(found.stdout), snapshot_format.serialize(snapshot, cluster=cluster, at_ms=0).header.size
    finally:
        server.stop()


def _follow(url: str, cluster: str) -> None:
    store = stores.open_store(
        settings.Store(url=url),
        schema=declared.SCHEMA,
        cluster=cluster,
        indexed=("app.kubernetes.io/name",),
    )
    snapshot = store.follower.catch_up(timeout=60)
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    print(pages * resource.getpagesize())
    assert snapshot.offset > 0
    store.close()


if __name__ == "__main__":
    if sys.argv[1:]:
        _follow(*sys.argv[1:])
    else:
        print(*(f"{name}: {size:,.0f} bytes" for name, size in measure_sizes().items()), sep="\n")
