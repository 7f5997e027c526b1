"""The time to plan a large gang: 1,000 members over 5,000 nodes, with and without capacity."""

import itertools
import statistics
import time

import msgspec

from app.domain import events, model, projections, snapshots
from app.framework import cycles, pipeline, registry
from app.plugins.coscheduling import gang_model
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota import quota_model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
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
    evicted from each of its nodes. ``in a quota``: the members belong to a quota of ElasticQuota, which
    admits all of them, or all but one (``over its quota``); pods of another quota hold the GPUs.

    Each call gets a new snapshot, as after an event of the cluster. But for the last case, a pod of a node is
    gone in it, so no plan is kept.
    """
    layers = ("topology.kubernetes.io/zone", bench_cluster.RACK)
    registered = registry.Registry([Coscheduling(layers=layers)])
    quotas = registry.Registry([Coscheduling(layers=layers), ElasticQuota()])
    # As in a process of the product, no collection scans the objects of the first state.
    with gc_pause.paused(lasting=True):
        worlds = {
            "placed": _world(registered),
            "refused": _world(registered, equipped=MEMBERS - 1),
            "two sizes, placed": _world(registered, launcher=100),
            "two sizes, refused": _world(registered, launcher=100, equipped=MEMBERS - 1),
            "preempting": _world(registered, occupied=True),
            "in a quota, placed": _world(quotas, quota=MEMBERS),
            "in a quota, refused": _world(quotas, quota=MEMBERS, equipped=MEMBERS - 1),
            "over its quota, refused": _world(quotas, quota=MEMBERS - 1),
            "in a quota, preempting": _world(quotas, quota=MEMBERS, occupied=True),
        }
    took = {
        case: statistics.median(
            _once(
                quotas if "quota" in case else registered,
                world,
                _without_a_pod(world),
                fits="refused" not in case,
            )
            for _ in range(ROUNDS)
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
    assert len(trace.kept) == fits, {refusal.reason for refusal in trace.refusals}
    return took * 1000


def _world(
    registered: registry.Registry,
    *,
    equipped: int = NODES,
    launcher: int = 10,
    occupied: bool = False,
    quota: int | None = None,
) -> snapshots.Snapshot:
    """The cluster of the benchmark with GPUs, and a gang whose members request one each.

    ``equipped``: nodes with a GPU. ``launcher``: milli-units of CPU that the first member requests; others
    request 10. ``occupied``: every GPU is allocated to a pod. ``quota``: GPUs of the gang's quota.
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
            labels={membership.LABEL: "serving"},
        )
        for number, name in enumerate(world.nodes if occupied else ())
    ]
    members = [
        model.Pod(
            uid=f"member-{number}",
            namespace="gangs",
            name=f"member-{number}",
            group="gang",
            labels={} if quota is None else {membership.LABEL: "research", "app": "training", "job": "gang"},
            requests={"cpu": 10 if number else launcher, GPU: 1},
        )
        for number in range(MEMBERS)
    ]
    seen = [events.PodSeen(pod=pod) for pod in (*holders, *members)]
    objects = [group, *_quotas(quota)] if quota is not None else [group]
    observed = [declared.SCHEMA.of(one).observed(one) for one in objects]
    return projections.project_all(world, [*nodes, *observed, *seen])


def _quotas(gpus: int) -> list[quota_model.Quota]:
    """Two teams in one department, of which one borrows what the other does not request."""
    department = quota_model.Quota(
        uid="department",
        namespace="quotas",
        name="department",
        min={GPU: NODES},
        max={GPU: NODES},
        is_parent=True,
    )
    teams = [
        quota_model.Quota(
            uid=name, namespace="quotas", name=name, parent="department", min={GPU: least}, max={GPU: most}
        )
        for name, least, most in (("research", gpus, gpus), ("serving", NODES // 2, NODES))
    ]
    return [department, *teams]


if __name__ == "__main__":
    for case, milliseconds in measure_plans().items():
        print(f"gang of {MEMBERS:,} over {NODES:,} nodes, {case}: {milliseconds:.1f} ms")
