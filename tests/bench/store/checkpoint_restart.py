"""The time until a restarted process has the snapshot at the head: by a checkpoint and the entries behind it.

Measured are the steps of a process before it is ready: connect, read the checkpoint, verify it, build the
indexes, read the entries behind it and apply them. The store is a real server with an append-only file.
"""

import gc
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from app import settings
from app.domain import events, projections, snapshots
from app.store import stores
from app.store.log import batches, logs
from app.store.server import embedded
from tests.bench.data import bench_cluster
from tests.support import declared
from tests.support.store import filled_stores

CLUSTER = "bench"
TAIL = 5_000


def measure_restart(nodes: int = 5_000, pods: int = 150_000, tail: int = TAIL) -> float:
    """Seconds until the snapshot of these nodes and pods, ``tail`` events behind a checkpoint, is there."""
    with TemporaryDirectory(prefix="topolog-") as directory:
        server = embedded.Server(Path(directory), append_only=True)
        try:
            keep(server.url, nodes, pods, tail)
            gc.collect()
            begun = time.perf_counter()
            store = stores.open_store(
                settings.Store(url=server.url),
                schema=declared.SCHEMA,
                cluster=CLUSTER,
                indexed=("app.kubernetes.io/name",),
            )
            snapshot = store.follower.catch_up(timeout=60)
            took = time.perf_counter() - begun
            assert len(snapshot.pods) == pods
            assert store.follower.nearest(snapshot.offset - tail - 1) is None, "not from the checkpoint"
            store.close()
            return took
        finally:
            server.stop()


def keep(url: str, nodes: int, pods: int, tail: int) -> None:
    """Fill the store and write a checkpoint ``tail`` events before the end."""
    facts = list(bench_cluster.facts(nodes, pods))
    snapshot = filled_stores.fill(url, CLUSTER, facts[: len(facts) - tail])
    store = stores.open_store(settings.Store(url=url), schema=declared.SCHEMA, cluster=CLUSTER)
    at_ms = store.histories.appended_ms(snapshot.offset)
    assert at_ms is not None
    store.checkpoints.write(snapshot, at_ms)
    append(store.log, snapshot, facts[len(facts) - tail :])
    store.close()


def append(log: logs.Log, snapshot: snapshots.Snapshot, facts: list[events.AnyEvent]) -> None:
    """Append facts behind a snapshot, with their increments."""
    for at in range(0, len(facts), batches.MAX_EVENTS):
        projection = projections.Projection(snapshot)
        part = facts[at : at + batches.MAX_EVENTS]
        projection.apply_all(part)
        log.append(batches.Batch(events=part, increments=projection.increments))
        snapshot = projection.finish()


if __name__ == "__main__":
    print(f"{measure_restart():.2f} s")
