"""The time that a burst of releases takes the controller while many pods wait for quotas."""

import dataclasses
import time
from collections.abc import Iterator

from app import clocks, plugins
from app.domain import events, model, projections, snapshots
from app.framework import effects, registry
from app.plugins.elastic_quota import kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.trees import membership
from tests.bench.data import bench_cluster
from tests.support import declared
from workers.controller import reconciliation

NODES, WAITING, RELEASES, QUOTAS = 500, 5_000, 1_000, 50
RUN = 250
"""Releases of a burst that the follower reads at once."""
ALONE = 10
"""Releases that are measured one by one."""


@dataclasses.dataclass
class _Executor:
    woken: int = 0

    def submit(
        self, found: effects.Effect, snapshot: snapshots.Snapshot, *, position: model.Position | None = None
    ) -> None:
        assert isinstance(found, effects.WakePods)
        self.woken += len(found.pods)

    def verify(self) -> None:
        """Nothing is verified."""


def measure_bursts() -> tuple[float, float]:
    """Milliseconds of CPU for all releases, read in runs and, from a few of them, read one by one."""
    world = _world()
    return _burst(world, RELEASES, RUN), _burst(world, ALONE, 1) * RELEASES / ALONE


def _burst(world: snapshots.Snapshot, releases: int, run: int) -> float:
    executor = _Executor()
    asked = reconciliation.Reconciliation(
        registry.Registry([*(kind() for kind in plugins.USUAL), ElasticQuota()]),
        lambda: world,
        executor,
        clocks.RealClock(),
    )
    steps = []
    for event in _released(releases):
        after = projections.project(world, event)
        steps.append((world, event, after))
        world = after
    began = time.process_time()
    for number, step in enumerate(steps, 1):
        asked.on_event(*step)
        if number % run == 0:
            asked.on_run()
    took = time.process_time() - began
    assert executor.woken >= releases
    return 1000 * took


def _released(count: int) -> Iterator[events.AnyEvent]:
    for number in range(count):
        pod = _pod("placed", number)
        node = bench_cluster.node_name(number % NODES)
        yield events.PlacementReleased(
            uid=pod.uid, namespace=pod.namespace, name=pod.name, node=node, reason="", cause="unbound"
        )


def _pod(name: str, number: int) -> model.Pod:
    return model.Pod(
        uid=f"{name}-{number}",
        namespace=bench_cluster.NAMESPACE,
        name=f"{name}-{number}",
        labels={membership.LABEL: f"q{number % QUOTAS}"},
        requests={"cpu": 1_000},
        phase="Pending",
    )


def _world() -> snapshots.Snapshot:
    """Quotas that are full of placed pods, for each of which others wait."""
    full = {"cpu": RELEASES // QUOTAS * 1_000}
    quotas = [
        kinds.QUOTAS.observed(
            Quota(uid=f"q{number}", namespace="quotas", name=f"q{number}", min=full, max=full)
        )
        for number in range(QUOTAS)
    ]
    waiting = [events.PodSeen(pod=_pod("waits", number)) for number in range(WAITING)]
    placed = [
        events.placed(_pod("placed", number), bench_cluster.node_name(number % NODES))
        for number in range(RELEASES)
    ]
    empty = snapshots.empty(schema=declared.SCHEMA)
    return projections.project_all(empty, [*quotas, *bench_cluster.facts(NODES, 0), *waiting, *placed])


if __name__ == "__main__":
    for case, milliseconds in zip(("in runs", "one by one"), measure_bursts(), strict=True):
        print(f"{RELEASES:,} releases, {WAITING:,} pods wait, {case}: {milliseconds:.0f} ms")
