"""What the plan of a large gang costs: a gang of 1,000 over 5,000 nodes, with and without room for it."""

import statistics
import time

import msgspec

from app.domain import events, model, projecting, snapshots
from app.framework import cycles, pipeline, registry
from app.plugins.coscheduling import gang_model
from app.plugins.coscheduling.plugin import Coscheduling
from tests.bench import populating
from tests.support import declared

NODES, PODS, MEMBERS = 5_000, 50_000, 1_000
GPU = "example.com/gpu"
ROUNDS = 7


def measure_plans() -> dict[str, float]:
    """Case -> milliseconds of CPU for the filter of one member, after a change.

    ``preempting``: the gang fits only if a less important pod goes from each of its nodes.

    The snapshot is a new one for each call, as after an event of the cluster: no plan is held.
    """
    registered = registry.Registry([Coscheduling(layers=("topology.kubernetes.io/zone", "rack"))])
    worlds = {
        "placed": _world(registered, 1),
        "refused": _world(registered, 1_001),
        "preempting": _world(registered, 1, occupied=True),
    }
    return {
        case: statistics.median(_once(registered, world) for _ in range(ROUNDS))
        for case, world in worlds.items()
    }


def _once(registered: registry.Registry, world: snapshots.Snapshot) -> float:
    (member,) = [pod for pod in world.pods.values() if pod.name == "member-0"]
    resident = next(pod for pod in world.pods.values() if pod.node and pod.priority == 0)
    gone = events.PodGone(uid=resident.uid, namespace=resident.namespace, name=resident.name)
    changed = projecting.project(world, gone)
    cycle = cycles.cycle(member, frozenset(changed.nodes), changed, offered=True)
    began = time.process_time()
    trace = pipeline.run_filter(registered, cycle)
    took = time.process_time() - began
    expected = 1 if member.requests[GPU] == 1 else 0
    assert len(trace.kept) == expected, trace.reasons()
    return took * 1000


def _world(registered: registry.Registry, gpus: int, *, occupied: bool = False) -> snapshots.Snapshot:
    """The bench's cluster with a GPU on each node, and a gang whose members request so many.

    ``occupied``: a pod has each of the GPUs.
    """
    empty = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    world = projecting.project_all(empty, populating.facts(NODES, PODS))
    equipped = [
        events.NodeSeen(node=msgspec.structs.replace(node, allocatable={**node.allocatable, GPU: 1}))
        for node in world.nodes.values()
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
            requests={"cpu": 10, GPU: gpus},
        )
        for number in range(MEMBERS)
    ]
    seen = [events.PodSeen(pod=pod) for pod in (*holders, *members)]
    kind = declared.SCHEMA.of(group)
    return projecting.project_all(world, [*equipped, kind.observed(group), *seen])


if __name__ == "__main__":
    for case, milliseconds in measure_plans().items():
        print(f"gang of {MEMBERS:,} over {NODES:,} nodes, {case}: {milliseconds:.1f} ms")
