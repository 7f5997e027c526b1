"""A recorded cluster with an auditor."""

import itertools
from collections.abc import Callable
from typing import Any

from app import settings
from app.domain.audit import findings
from app.kube.watch import kinds
from app.store import stores
from tests.support import declared
from tests.support.store import materialised, writers
from tests.support.workers import clusters, recordings
from workers.auditor import auditors

OPTIONS = settings.Audit(interval=0.05, page=10_000, listing=0.05, repair=False, relist=False)
REPAIRING = settings.Audit(interval=0.05, page=10_000, listing=0.05)


class Clock:
    """A clock that advances by one second at each call."""

    def __init__(self) -> None:
        self._ticks = itertools.count()

    def __call__(self) -> float:
        return float(next(self._ticks))


class World:
    """A recorded cluster and its auditor."""

    def __init__(
        self,
        cluster: clusters.Cluster,
        recorder: recordings.Recording,
        reopen: Callable[[], stores.Store],
        options: settings.Audit,
    ) -> None:
        self.cluster = cluster
        self.recorder = recorder
        self.store = recorder.store
        self.client = recorder.store.client
        self.keys = recorder.store.keys
        self._reopen = reopen
        self.auditor = self.another(options)

    def another(self, options: settings.Audit = OPTIONS) -> auditors.Auditor:
        """An auditor as another process would run it."""
        made = auditors.Auditor(self._reopen(), self.cluster.client, options, monotonic=Clock())
        return made

    def audited(self, auditor: auditors.Auditor | None = None) -> findings.Report:
        """The report after everything was audited twice more."""
        auditor = auditor or self.auditor
        before = auditor.report
        passes = 2 + (before.passes if before is not None else 0)
        listings = 2 * len(kinds.watched(declared.SCHEMA)) + (before.listings if before is not None else 0)

        def complete() -> bool:
            auditor.run_once()
            report = auditor.report
            if report is None:
                return False
            return report.passes >= passes and (report.listings >= listings or "counts" in report.waiting)

        recordings.eventually(complete, f"everything is audited: {auditor.report}")
        assert auditor.report is not None
        return auditor.report

    @property
    def head(self) -> int:
        return self.store.log.head().offset

    def edit(self, offset: int, change: Callable[[dict[bytes, bytes]], dict[bytes, bytes]]) -> None:
        """Rewrite the log with one entry changed."""
        pipeline: Any = self.client.pipeline(transaction=True)
        entries: Any = self.client.xrange(self.keys.log)
        pipeline.delete(self.keys.log)
        for identity, fields in entries:
            changed = change(fields) if identity == f"{offset}-0".encode() else fields
            pipeline.xadd(self.keys.log, changed, id=identity)
        pipeline.execute()

    def offset_of(self, name: str) -> int:
        """The offset of the latest event on a pod of the cluster."""
        snapshot = self.recorder.snapshot
        pod = snapshot.pod_named("ns", name)
        assert pod is not None
        return snapshot.version(f"pod:{pod.uid}")

    def uid(self, name: str) -> str:
        pod = self.recorder.snapshot.pod_named("ns", name)
        assert pod is not None
        return pod.uid


def counted(world: World, domain: str) -> str:
    """The name of the policy's count for a domain, as it is stored."""
    (key,) = [key for key in materialised.counts(world.store) if key.endswith(domain)]
    return key


def place(world: World) -> None:
    """Place the pod w0 on the node n1."""
    snapshot = world.recorder.snapshot
    writers.placement(world.store.log, snapshot, snapshot.pods[world.uid("w0")], "n1")


def watched(
    cluster: clusters.Cluster,
    recorder: recordings.Recording,
    reopen: Callable[[], stores.Store],
    options: settings.Audit = OPTIONS,
) -> World:
    """Four pods of one policy over two zones, recorded and audited without a difference."""
    for name, zone in (("n1", "a"), ("n2", "b")):
        cluster.node(name, zone=zone)
    cluster.policy("p", a=5, b=5)
    for number in range(4):
        cluster.pod(f"w{number}", node=f"n{1 + number % 2}", app="x")
    recorder.ready().until_counts(a=2, b=2)
    made = World(cluster, recorder, reopen, options)
    assert made.audited().differences == ()
    return made
