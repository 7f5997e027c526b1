"""A recorder in a thread of the test's process, between a store and a simulated cluster."""

import threading
import time
from collections.abc import Callable

from app.domain import projections, snapshots
from app.kube.election import electors
from app.store import stores
from tests.support import declared
from tests.support.store import materialised
from tests.support.workers import clusters
from workers.recorder import recorders

TERMS = electors.Durations(lease=2.5, renew=2.0, retry=0.05)
"""Far shorter than in production, so that a change of leader takes seconds; a busy machine may stop a thread
for one of them.
"""
LIMIT = 60.0
"""Seconds to wait for a condition before the test fails."""


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds; fail with ``what`` after LIMIT seconds."""
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.005)


class Recording:
    """A recorder in a thread, and the state that it has recorded."""

    def __init__(
        self,
        store: stores.Store,
        cluster: clusters.Cluster,
        *,
        settle: float = 0.05,
        silence: float = 150.0,
        durations: electors.Durations = TERMS,
    ) -> None:
        self.store = store
        self.elector = electors.Elector(cluster.client, "ns", "topolog-recorder", durations=durations)
        self.recorder = recorders.Recorder(
            store.log, store.follower, cluster.client, elector=self.elector, settle=settle, silence=silence
        )
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.recorder.run()
        except Exception as error:
            self.error = error

    def ready(self) -> "Recording":
        eventually(lambda: self.recorder.ready or not self.thread.is_alive(), "the recorder is ready")
        assert self.error is None
        return self

    def stop(self) -> None:
        self.recorder.stop()
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()

    @property
    def snapshot(self) -> snapshots.Snapshot:
        return self.store.follower.catch_up()

    def until(self, holds: Callable[[snapshots.Snapshot], bool], what: str) -> snapshots.Snapshot:
        eventually(lambda: holds(self.snapshot), what)
        return self.snapshot

    def counts(self) -> dict[str, int]:
        """The counts in the store, proven equal to the fold of the whole log."""
        entries = self.store.log.read(0, limit=100_000)
        fold = projections.project_all(
            snapshots.empty(schema=declared.SCHEMA), (entry.event for entry in entries)
        )
        counts = materialised.counts(self.store)
        assert counts == dict(fold.counts)
        return counts

    def until_counts(self, by: str = "zone", **expected: int) -> None:
        """The counts of the policy `p` over a label become these, in the store and in the snapshot."""
        wanted = {f"ns/p|{by}={domain}": count for domain, count in expected.items()}
        eventually(lambda: materialised.counts(self.store) == wanted, f"counts {wanted}")
        assert dict(self.snapshot.counts) == wanted == self.counts()
