"""The rate at which events are appended to the log, and at which a follower replays them.

Both use an embedded server with an append-only file (everysec): ``Log.append`` with every guard (fence,
expected head, the expected version of each subject, a ceiling for each count) and the increments of the
events, and a ``Follower`` that reads the log.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from app.domain import event_subjects, events, projections, snapshots
from app.store.log import batches, logs
from app.store.state import followers
from tests.bench.data import pod_churn
from tests.support import declared
from tests.support.store import embedded_stores
from workers.recorder import batch_builder


def measure_ingest(count: int = 100_000) -> float:
    """Events per second into the log, guarded; the events are prepared before the clock starts."""
    with (
        TemporaryDirectory(prefix="topolog-") as directory,
        embedded_stores.opened(Path(directory), "bench") as made,
    ):
        prepared = list(_batches(count))
        begun = time.perf_counter()
        for guard, batch in prepared:
            made.store.log.append(batch, guard)
        return count / (time.perf_counter() - begun)


def measure_replay(count: int = 150_000, times: int = 5) -> float:
    """Events per second that an empty follower replays: the median of several runs."""
    with (
        TemporaryDirectory(prefix="topolog-") as directory,
        embedded_stores.opened(Path(directory), "bench") as made,
    ):
        for guard, batch in _batches(count):
            made.store.log.append(batch, guard)
        return count / statistics.median(_replay(made.store.log) for _ in range(times))


def _replay(log: logs.Log) -> float:
    """Seconds to replay the whole log."""
    follower = followers.Follower(log, schema=declared.SCHEMA)
    begun = time.perf_counter()
    follower.catch_up(timeout=600)
    took = time.perf_counter() - begun
    follower.stop()
    return took


def _batches(count: int) -> Iterator[tuple[batches.Guard, batches.Batch]]:
    """Batches with their guards: nodes and policies, then pods that are created, started and deleted."""
    before = snapshots.empty(schema=declared.SCHEMA)
    pending: list[events.AnyEvent] = []
    for number, event in zip(range(count), pod_churn.history(), strict=False):
        pending.append(event)
        if len(pending) == batch_builder.MAX_EVENTS or number == count - 1:
            projection = projections.Projection(before)
            projection.apply_all(pending)
            subjects = {subject for one in pending for subject in event_subjects.touched(one)}
            guard = batches.Guard(
                epoch="1",
                writer="bench",
                head=before.offset,
                versions={subject: before.version(subject) for subject in subjects},
                ceilings=dict.fromkeys(projection.increments, count),
            )
            yield guard, batches.Batch(events=pending, increments=projection.increments)
            before = projection.finish()
            pending = []
