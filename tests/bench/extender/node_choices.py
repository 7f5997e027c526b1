"""The CPU of a whole decision of filter_onlyone under a policy of few pods, and under one of many.

Without HTTP: the filters, the scores and the choice among the nodes of the highest score, right after another
pod of the policy was placed.
"""

import statistics
import time

from app import plugins
from app.domain import events, model, projections, snapshots
from app.framework import cycles, pipeline, registry
from app.plugins.workload_policy import policy_model
from tests.bench.data import bench_cluster
from tests.support import declared

NODES = 5_000
FEW, MANY = 200, 20_000
"""Pods of either policy."""
CALLS = 101


def measure_choices() -> tuple[float, float]:
    """Milliseconds under the policy of few pods, and under that of many; medians of calls in turns."""
    registered = registry.Registry(kind() for kind in plugins.USUAL)
    world = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    world = projections.project_all(world, bench_cluster.facts(NODES, 0))
    for count in (FEW, MANY):
        pods = (events.PodSeen(pod=_pod(count, n, bench_cluster.node_name(n % NODES))) for n in range(count))
        world = projections.project_all(world, [declared.observed(_policy(count)), *pods])
    took: dict[int, list[float]] = {FEW: [], MANY: []}
    for number in range(CALLS):
        for count, found in took.items():
            placed = events.placed(_pod(count, count + number, ""), bench_cluster.node_name(number))
            world = projections.project(world, placed)
            found.append(_chosen(registered, _pod(count, -1, ""), world))
    return statistics.median(took[FEW]), statistics.median(took[MANY])


def _chosen(registered: registry.Registry, pod: model.Pod, state: snapshots.Snapshot) -> float:
    began = time.process_time()
    cycle = cycles.cycle(pod, state.topology.everywhere, state, offered=True)
    assert pipeline.best(registered, cycle, pipeline.run(registered, cycle))
    return (time.process_time() - began) * 1000


def _policy(count: int) -> policy_model.WorkloadPolicy:
    """One that admits twice its pods, evenly in all racks."""
    quota = 2 * count // bench_cluster.RACKS
    return policy_model.WorkloadPolicy(
        uid=f"uid-{count}",
        namespace=bench_cluster.NAMESPACE,
        name=f"of-{count}",
        topology_key=bench_cluster.RACK,
        selector=model.Selector(labels={"app": str(count)}),
        allocations=tuple(
            policy_model.Allocation(bench_cluster.rack(number), quota)
            for number in range(bench_cluster.RACKS)
        ),
        type="Required",
    )


def _pod(count: int, number: int, node: str) -> model.Pod:
    return model.Pod(
        uid=f"uid-{count}-{number}",
        namespace=bench_cluster.NAMESPACE,
        name=f"{count}-{number}",
        labels={bench_cluster.POLICY_LABEL: f"of-{count}", "app": str(count)},
        requests={"cpu": 250},
        node=node,
        phase="Running" if node else "Pending",
    )


if __name__ == "__main__":
    few, many = measure_choices()
    print(f"{FEW:,} pods: {few:.2f} ms; {MANY:,} pods: {many:.2f} ms")
