"""The time to reconstruct past snapshots: random offsets of a long history.

The history is that of a cluster in a steady state: pods are created, bound, started and deleted, and their
number stays the same. The compactor writes checkpoints as by default, every 50,000 events. Cold: no past
snapshot is in memory. Measured twice: with all entries in the log, and with the log trimmed to its last
checkpoint and the rest in the archive.
"""

import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from app import settings
from app.domain import events, projections, snapshots
from app.store import schemas, stores
from app.store.log import batches
from app.store.server import connections, embedded
from app.store.state import histories
from tests.bench.data import pod_churn
from tests.support import declared
from workers.compactor import compactors

NODES, PODS, EVENTS = 1_000, 20_000, 1_000_000
PROBES = 12
CLUSTER = "bench"


@dataclass(frozen=True, slots=True)
class Travel:
    """Seconds, over all probes."""

    cold_median: float
    cold_worst: float
    cached_worst: float


def measure_travel(
    count: int = EVENTS, *, nodes: int = NODES, pods: int = PODS, probes: int = PROBES, seed: int = 1
) -> tuple[Travel, Travel]:
    """(from the log, from the archive)."""
    with TemporaryDirectory(prefix="topolog-") as directory:
        server = embedded.Server(Path(directory) / "server", append_only=True)
        archive = Path(directory) / "archive"
        try:
            with connections.connect(server.url) as client:
                schemas.migrate(client, declared.names(CLUSTER), declared.SCHEMA)
            _write(server.url, archive, count, nodes, pods)
            chosen = random.Random(seed)
            offsets = [chosen.randrange(count) for _ in range(probes)]
            out_of_log = _probed(server.url, "", offsets)
            _compacted(server.url, archive, keep=0)
            return out_of_log, _probed(server.url, str(archive), offsets)
        finally:
            server.stop()


def _write(url: str, archive: Path, count: int, nodes: int, pods: int) -> None:
    store = stores.open_store(
        settings.Store(url=url),
        schema=declared.SCHEMA,
        cluster=CLUSTER,
        archive=str(archive),
    )
    options = settings.Compaction(keep=10 * count, checkpoints=1000, archive=str(archive))
    compactor = compactors.Compactor(store, options)
    snapshot = snapshots.empty(schema=declared.SCHEMA, incarnation=store.log.incarnation)
    batch: list[events.AnyEvent] = []
    for number, event in zip(range(count), pod_churn.history(nodes, lambda one: one - pods), strict=False):
        batch.append(event)
        if len(batch) == batches.MAX_EVENTS or number == count - 1:
            projection = projections.Projection(snapshot)
            projection.apply_all(batch)
            appended = store.log.append(batches.Batch(events=batch, increments=projection.increments))
            snapshot = projection.finish()
            store.follower.apply_own_append(snapshot, appended)
            batch = []
            if snapshot.offset % 2048 < batches.MAX_EVENTS:
                compactor.run_once()
    store.close()


def _compacted(url: str, archive: Path, *, keep: int) -> None:
    store = stores.open_store(
        settings.Store(url=url),
        schema=declared.SCHEMA,
        cluster=CLUSTER,
        archive=str(archive),
    )
    compactors.Compactor(store, settings.Compaction(keep=keep, checkpoints=3)).run_once()
    store.close()


def _probed(url: str, archive: str, offsets: list[int]) -> Travel:
    store = stores.open_store(
        settings.Store(url=url),
        schema=declared.SCHEMA,
        cluster=CLUSTER,
        archive=archive,
    )
    store.follower.catch_up(timeout=60)
    cold: list[float] = []
    cached: list[float] = []
    for offset in offsets:
        past = histories.Histories(store.log, store.follower, store.recovery_points, store.archive)
        for times in (cold, cached):
            begun = time.perf_counter()
            found = past.at(offset)
            times.append(time.perf_counter() - begun)
            assert found.offset == offset
    store.close()
    return Travel(statistics.median(cold), max(cold), max(cached))


if __name__ == "__main__":
    print(*measure_travel(int(sys.argv[1]) if sys.argv[1:] else EVENTS), sep="\n")
