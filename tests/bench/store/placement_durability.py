"""The latency of a placement that is on disk against one that is acknowledged: two servers, in turns."""

import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from app import settings
from app.domain import events, model
from app.store import schemas, stores
from app.store.log import batches, logs
from app.store.server import connections, embedded
from tests.support import declared

_CLUSTER = "bench"


def measure(count: int = 500) -> tuple[float, float]:
    """Milliseconds for a placement that is on disk, and for one that is acknowledged: medians."""
    ways = (("always", "fsync"), ("everysec", "acknowledged"))
    taken: tuple[list[float], list[float]] = ([], [])
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(_opened(*way)) for way in ways]
        for number in range(count):
            for times, store in zip(taken, opened, strict=True):
                times.append(_placed(store.log, str(number)))
    synced, acknowledged = (statistics.median(times) for times in taken)
    return synced, acknowledged


@contextlib.contextmanager
def _opened(policy: str, placements: str) -> Iterator[stores.Store]:
    """A store whose server has this ``appendfsync``."""
    with TemporaryDirectory(prefix="topolog-") as directory:
        server = embedded.Server(Path(directory), append_only=True)
        try:
            with connections.connect(server.url) as client:
                client.config_set("appendfsync", policy)
                schemas.migrate(client, declared.names(_CLUSTER), declared.SCHEMA)
            store = stores.open_store(
                settings.Store(url=server.url, placements=placements),
                schema=declared.SCHEMA,
                cluster=_CLUSTER,
            )
            yield store
            store.close()
        finally:
            server.stop()


def _placed(log: logs.Log, uid: str) -> float:
    event = events.placed(model.Pod(uid=uid, namespace="ns", name=uid), "n")
    begun = time.perf_counter()
    log.append(batches.Batch(events=(event,)))
    return 1000 * (time.perf_counter() - begun)
