"""The time of a preemption's dry run on a large cluster whose nodes all have pods to evict."""

import time

from app import plugins
from app.domain import events, model, projecting, snapshots
from app.framework import registry
from app.verbs.explain import preemptions
from tests.bench.data import bench_cluster
from tests.support import declared

NODES, PODS = 5_000, 50_000


def measure_dry_run() -> float:
    """Milliseconds of CPU for a pod that fits on no node, and on each node without most of its pods."""
    registered = registry.Registry([kind() for kind in plugins.USUAL])
    world = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    world = projecting.project_all(world, bench_cluster.facts(NODES, PODS))
    pod = model.Pod(
        uid="asked",
        namespace="asked",
        name="asked",
        priority=10,
        requests={"cpu": 31_500, "memory": 1 << 30},
        phase="Pending",
        constraints=model.STANDARD,
    )
    world = projecting.project(world, events.PodSeen(pod=pod))
    began = time.process_time()
    found = preemptions.dry_run(pod, world, registered)
    took = time.process_time() - began
    assert found.choice is not None
    assert len(found.outcomes) == NODES
    return took * 1000


if __name__ == "__main__":
    print(f"dry run of a preemption, {NODES:,} nodes, {PODS:,} pods: {measure_dry_run():.0f} ms")
