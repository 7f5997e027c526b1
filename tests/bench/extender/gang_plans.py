"""The time to plan a large gang: 1,000 members over 5,000 nodes, with and without capacity."""

import itertools
import statistics
import time

import msgspec

from app.domain import events, model, projections, snapshots
from app.framework import cycles, pipeline, registry
from app.plugins.coscheduling import gang_model
from app.plugins.coscheduling.plugin import Coscheduling
from app.store.state import gc_pause
from tests.bench.data import bench_cluster
from tests.support import declared

NODES, PODS, MEMBERS = 5_000, 50_000, 1_000
GPU = "example.com/gpu"
ROUNDS = 7
KEPT = "preempting, after a change that its plan does not depend on"


def measure_plans() -> dict[str, float]:
    """Case -> milliseconds of CPU for the filter of one member, after a change.

    ``refused``: there is capacity for all members but one. ``two sizes``: the first member, a launcher,
    requests more CPU than the workers. ``preempting``: the gang fits only if a pod of a lower priority is
    evicted from each of its nodes.

    Each call gets a new snapshot, as after an event of the cluster. But for the last case, a pod of a node is
    gone in it, so no plan is kept.
    """
    layers = ("topology.kubernetes.io/zone", bench_cluster.RACK)
    registered = registry.Registry([Coscheduling(layers=layers)])
    # As in a process of the product, no collection scans the objects of the first state.
    with gc_pause.paused(lasting=True):
        worlds = {
            "placed": _world(registered),
            "refused": _world(registered, equipped=MEMBERS - 1),
            "two sizes, placed": _world(registered, launcher=100),
            "two sizes, refused": _world(registered, launcher=100, equipped=MEMBERS - 1),
            "preempting": _world(registered, occupied=True),
        }
    took = {
        case: statistics.median(
            _once(registered, world, _without_a_pod(world), fits="refused" not in case) for _ in range(ROUNDS)
        )
        for case, world in worlds.items()
    }
    world = worlds["preempting"]
    _once(registered, world, world, fits=True)
    another = (_with_a_waiting_pod(world, number) for number in range(ROUNDS))
    took[KEPT] = statistics.median(_once(registered, world, changed, fits=True) for changed in another)
    return took


def _without_a_pod(world: snapshots.Snapshot) -> snapshots.Snapshot:
    resident = next(pod for pod in world.pods.values() if pod.node and pod.priority == 0)
    gone = events.PodGone(uid=resident.uid, namespace=resident.namespace, name=resident.name)
    return projections.project(world, gone)


def _with_a_waiting_pod(world: snapshots.Snapshot, number: int) -> snapshots.Snapshot:
    name = f"another-{number}"
    seen = events.PodSeen(pod=model.Pod(uid=name, namespace="others", name=name))
    return projections.project(world, seen)


def _once(
    registered: registry.Registry, world: snapshots.Snapshot, changed: snapshots.Snapshot, *, fits: bool
) -> float:
    (member,) = [pod for pod in world.pods.values() if pod.name == "member-0"]
    cycle = cycles.cycle(member, frozenset(changed.nodes), changed, offered=True)
    began = time.process_time()
    trace = pipeline.run_filter(registered, cycle)
    took = time.process_time() - began
    assert len(trace.kept) == fits, trace.reasons()
    return took * 1000


def _world(
    registered: registry.Registry, *, equipped: int = NODES, launcher: int = 10, occupied: bool = False
) -> snapshots.Snapshot:
    """The cluster of the benchmark with GPUs, and a gang whose members request one each.

    ``equipped``: nodes with a GPU. ``launcher``: milli-units of CPU that the first member requests; others
    request 10. ``occupied``: every GPU is allocated to a pod.
    """
    empty = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    world = projections.project_all(empty, bench_cluster.facts(NODES, PODS))
    nodes = [
        events.NodeSeen(node=msgspec.structs.replace(node, allocatable={**node.allocatable, GPU: 1}))
        for node in itertools.islice(world.nodes.values(), equipped)
    ]
    group = gang_model.NativePodGroup(uid="gang", namespace="gangs", name="gang", minimum=MEMBERS)
    holders = [
        model.Pod(
            uid=f"holder-{number}",
            namespace="others",
            name=f"holder-{number}",
            requests={GPU: 1},
            node=name,
            phase="Running",
            priority=-1,
        )
        for number, name in enumerate(world.nodes if occupied else ())
    ]
    members = [
        model.Pod(
            uid=f"member-{number}",
            namespace="gangs",
            name=f"member-{number}",
            group="gang",
            requests={"cpu": 10 if number else launcher, GPU: 1},
        )
        for number in range(MEMBERS)
    ]
    seen = [events.PodSeen(pod=pod) for pod in (*holders, *members)]
    kind = declared.SCHEMA.of(group)
    return projections.project_all(world, [*nodes, kind.observed(group), *seen])


if __name__ == "__main__":
    for case, milliseconds in measure_plans().items():
        print(f"gang of {MEMBERS:,} over {NODES:,} nodes, {case}: {milliseconds:.1f} ms")
