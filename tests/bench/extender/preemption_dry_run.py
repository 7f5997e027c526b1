"""The time of a preemption's dry run on a large cluster, and of the answer to a call of preempt."""

import statistics
import time

from app import plugins
from app.domain import events, model, projections, snapshots
from app.framework import cycles, registry
from app.plugins.coscheduling import plugin as coscheduling
from app.plugins.elastic_quota import plugin as elastic_quota
from app.verbs.explain import preemptions
from app.verbs.preemption import offers
from tests.bench.data import bench_cluster
from tests.support import declared

NODES, PODS = 5_000, 50_000
OFFERED, VICTIMS, ROUNDS = 100, 5, 9


def measure_dry_run() -> float:
    """Milliseconds of CPU for a pod that fits on no node, and on each node without most of its pods."""
    registered = registry.Registry([kind() for kind in plugins.USUAL])
    world = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    world = projections.project_all(world, bench_cluster.facts(NODES, PODS))
    pod = model.Pod(
        uid="asked",
        namespace="asked",
        name="asked",
        priority=10,
        requests={"cpu": 31_500, "memory": 1 << 30},
        phase="Pending",
        constraints=model.STANDARD,
    )
    world = projections.project(world, events.PodSeen(pod=pod))
    began = time.process_time()
    found = preemptions.dry_run(pod, world, registered)
    took = time.process_time() - began
    assert found.choice is not None
    assert len(found.outcomes) == NODES
    return took * 1000


def measure_answer() -> float:
    """Milliseconds of CPU for the answer to a call about many nodes, with all plugins in the tree (PR-41).

    The pod is under a policy, and each call gets a new snapshot, as after an event of the cluster.
    """
    kinds = (*plugins.USUAL, elastic_quota.ElasticQuota, coscheduling.Coscheduling)
    registered = registry.Registry([kind() for kind in kinds])
    world = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    world = projections.project_all(world, bench_cluster.facts(OFFERED, OFFERED * VICTIMS * 2))
    pod = model.Pod(
        uid="asked",
        namespace=bench_cluster.NAMESPACE,
        name="asked",
        labels={"app.kubernetes.io/name": bench_cluster.FREE, bench_cluster.POLICY_LABEL: bench_cluster.FREE},
        priority=1_000,
        requests={"cpu": 1_000},
        phase="Pending",
        constraints=model.STANDARD,
    )
    offer = {name: [one.uid for one in world.on(name)][:VICTIMS] for name in world.nodes}
    return statistics.median(_answered(registered, world, pod, offer) for _ in range(ROUNDS))


def _answered(
    registered: registry.Registry, world: snapshots.Snapshot, pod: model.Pod, offer: offers.Offer
) -> float:
    changed = projections.project(world, events.PodSeen(pod=pod))
    cycle = cycles.cycle(pod, frozenset(offer), changed, score_max=registered.score_max)
    began = time.process_time()
    answer = offers.judge(registered, cycle, offer)
    took = time.process_time() - began
    assert len(answer.kept) == OFFERED, answer.dropped
    assert all(len(kept.uids) == VICTIMS for kept in answer.kept.values())
    return took * 1000


if __name__ == "__main__":
    print(f"answer to preempt, {OFFERED} nodes of {VICTIMS} victims: {measure_answer():.1f} ms")
    print(f"dry run of a preemption, {NODES:,} nodes, {PODS:,} pods: {measure_dry_run():.0f} ms")
