"""How fast events go into the log, and how fast they come out of it again as a snapshot.

Both through the real thing: an embedded server with an append-only file (everysec); ``Log.append``
with every guard there is (fence, expected head, the expected version of each subject, a ceiling for each
count) and the counts that the events change; ``Follower`` reading it back.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from app import settings
from app.domain import event_subjects, events, projecting, snapshots
from app.store import stores
from app.store.log import logs
from app.store.state import followers
from tests.bench import living
from tests.support import declared


def measure_ingest(count: int = 100_000) -> float:
    """Events per second into the log, guarded; the events are prepared before the clock starts."""
    with TemporaryDirectory(prefix="topolog-") as directory:
        store = stores.open_store(
            settings.Store(),
            schema=declared.SCHEMA,
            cluster="bench",
            embedded_dir=Path(directory),
        )
        try:
            batches = list(_batches(count))
            begun = time.perf_counter()
            for guard, batch in batches:
                store.log.append(batch, guard)
            return count / (time.perf_counter() - begun)
        finally:
            store.close()


def measure_replay(count: int = 150_000, times: int = 5) -> float:
    """Events a second out of the log, through a follower that starts from nothing: the median of several."""
    with TemporaryDirectory(prefix="topolog-") as directory:
        store = stores.open_store(
            settings.Store(),
            schema=declared.SCHEMA,
            cluster="bench",
            embedded_dir=Path(directory),
        )
        try:
            for guard, batch in _batches(count):
                store.log.append(batch, guard)
            return count / statistics.median(_replay(store.log) for _ in range(times))
        finally:
            store.close()


def _replay(log: logs.Log) -> float:
    """Seconds for all of it."""
    follower = followers.Follower(log, schema=declared.SCHEMA)
    begun = time.perf_counter()
    follower.catch_up(timeout=600)
    took = time.perf_counter() - begun
    follower.stop()
    return took


def _batches(count: int) -> Iterator[tuple[logs.Guard, logs.Batch]]:
    """What holds before it, and a batch: nodes and policies, then pods that come, run, and some that go."""
    before = snapshots.empty(schema=declared.SCHEMA)
    pending: list[events.AnyEvent] = []
    for number, event in zip(range(count), living.history(), strict=False):
        pending.append(event)
        if len(pending) == logs.MAX_EVENTS or number == count - 1:
            projection = projecting.Projection(before)
            projection.apply_all(pending)
            subjects = {subject for one in pending for subject in event_subjects.touched(one)}
            guard = logs.Guard(
                epoch="1",
                writer="bench",
                head=before.offset,
                versions={subject: before.version(subject) for subject in subjects},
                ceilings=dict.fromkeys(projection.increments, count),
            )
            yield guard, logs.Batch(events=pending, increments=projection.increments)
            before = projection.finish()
            pending = []
