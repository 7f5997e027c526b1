"""The time to plan and to commit a gang over 5,000 nodes: 1,000 members, and 12 of two sizes."""

import itertools
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from app.domain import events, model, projections, snapshots
from app.framework import cycles, pipeline, plans, registry
from app.plugins.coscheduling import gang_model
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota import quota_model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from app.plugins.workload_policy import logic, policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from app.store.log import codecs
from app.store.state import gc_pause
from tests.bench.data import bench_cluster
from tests.support import declared

NODES, PODS, MEMBERS = 5_000, 50_000, 1_000
GPU = "example.com/gpu"
ROUNDS = 7
KEPT = "preempting, after a change that its plan does not depend on"
FIRST = "commitment of the first bind"
BARS = {"preempting": 200, "in a quota, preempting": 300, KEPT: 20}
"""Case of ``measure_plans`` -> milliseconds at most, where they are not 100."""
ZONE = "topology.kubernetes.io/zone"
APP = {"app": "training"}


def measure_plans() -> dict[str, float]:
    """Case -> milliseconds of CPU for the filter of one member, after a change.

    ``refused``: there is capacity for all members but one. ``two sizes``: the first member, a launcher,
    requests more CPU than the workers. ``preempting``: the gang fits only if a pod of a lower priority is
    evicted from each of its nodes. ``in a quota``: the members belong to a quota of ElasticQuota, which
    admits all of them, or all but one (``over its quota``); pods of another quota hold the GPUs. ``under a
    policy``: a WorkloadPolicy limits the members in each of 3 zones or 100 racks; ``most moved``: to fewer
    than have capacity there. ``FIRST``: the bind of the first member, which commits the plan that filter has
    made, without the call of the store.

    Each call gets a new snapshot, as after an event of the cluster. A pod of a node is gone in it, so that no
    plan is kept, but in the case ``KEPT``.
    """
    layers = (ZONE, bench_cluster.RACK)
    alone = registry.Registry([Coscheduling(layers=layers)])
    quotas = registry.Registry([Coscheduling(layers=layers), ElasticQuota()])
    policies = registry.Registry([WorkloadPolicy(), Coscheduling(layers=layers)])

    def zones(places: int) -> World:
        return World(policies, policy=_policy(ZONE, {f"eu-central-1{zone}": places for zone in "abc"}))

    def racks(places: int, last: int) -> World:
        each = [last, *itertools.repeat(places, bench_cluster.RACKS - 1)]
        numbered = {bench_cluster.rack(number): places for number, places in enumerate(each)}
        return World(policies, policy=_policy(bench_cluster.RACK, numbered))

    # As in a process of the product, no collection scans the objects of the first state.
    with gc_pause.paused(lasting=True):
        worlds = {
            "placed": World(alone),
            "refused": World(alone, equipped=MEMBERS - 1),
            "two sizes, placed": World(alone, launcher=100),
            "two sizes, refused": World(alone, launcher=100, equipped=MEMBERS - 1),
            "preempting": World(alone, occupied=True),
            "in a quota, placed": World(quotas, quota=MEMBERS),
            "in a quota, refused": World(quotas, quota=MEMBERS, equipped=MEMBERS - 1),
            "over its quota, refused": World(quotas, quota=MEMBERS - 1),
            "in a quota, preempting": World(quotas, quota=MEMBERS, occupied=True),
            "under a policy by zone, placed": zones(MEMBERS),
            "under a policy by zone, most moved": zones(400),
            "under a policy by zone, refused": zones(333),
            "under a policy by rack, placed": racks(50, 50),
            "under a policy by rack, most moved": racks(10, 10),
            "under a policy by rack, refused": racks(10, 9),
        }
        states = {case: world.state() for case, world in worlds.items()}
    took = {
        case: statistics.median(
            _once(world.plugins, states[case], _without_a_pod(states[case]), fits="refused" not in case)
            for _ in range(ROUNDS)
        )
        for case, world in worlds.items()
    }
    preempting = states["preempting"]
    _once(alone, preempting, preempting, fits=True)
    another = (_with_a_waiting_pod(preempting, number) for number in range(ROUNDS))
    took[KEPT] = statistics.median(_once(alone, preempting, changed, fits=True) for changed in another)
    for case in (
        "placed",
        "in a quota, placed",
        "under a policy by zone, placed",
        "under a policy by rack, most moved",
    ):
        bound = (_bound(worlds[case].plugins, _without_a_pod(states[case])) for _ in range(ROUNDS))
        took[f"{case}, {FIRST}"] = statistics.median(bound)
    return took


def measure_small_plans() -> dict[str, float]:
    """Case -> milliseconds of CPU for the filter of one member of 12, after a change, over all nodes.

    4 of them request no GPU, and the cluster has none (``refused``), or 20 (``placed``). ``one GPU too few``:
    all request one and 4 more CPU than the others, so that each size fits alone, and both together do not.
    """
    alone = registry.Registry([Coscheduling(layers=(ZONE, bench_cluster.RACK))])
    took = {}
    with gc_pause.paused(lasting=True):
        for case, world in {
            "refused": World(alone, members=12, launchers=4, launcher_gpus=0, equipped=0),
            "placed": World(alone, members=12, launchers=4, launcher_gpus=0, equipped=20),
            "one GPU too few, refused": World(alone, members=12, launchers=4, launcher=100, equipped=11),
        }.items():
            state, fits = world.state(), case == "placed"
            each = [_once(alone, state, _without_a_pod(state), fits=fits) for _ in range(ROUNDS)]
            took[case] = statistics.median(each)
    return took


def _without_a_pod(world: snapshots.Snapshot) -> snapshots.Snapshot:
    resident = next(pod for pod in world.pods.values() if pod.node and pod.priority == 0)
    gone = events.PodGone(uid=resident.uid, namespace=resident.namespace, name=resident.name)
    return projections.project(world, gone)


def _with_a_waiting_pod(world: snapshots.Snapshot, number: int) -> snapshots.Snapshot:
    name = f"another-{number}"
    seen = events.PodSeen(pod=model.Pod(uid=name, namespace="others", name=name))
    return projections.project(world, seen)


def _member(world: snapshots.Snapshot) -> model.Pod:
    (member,) = [pod for pod in world.pods.values() if pod.name == "member-0"]
    return member


def _once(
    registered: registry.Registry, world: snapshots.Snapshot, changed: snapshots.Snapshot, *, fits: bool
) -> float:
    cycle = cycles.cycle(_member(world), frozenset(changed.nodes), changed, offered=True)
    began = time.process_time()
    trace = pipeline.run_filter(registered, cycle)
    took = time.process_time() - began
    assert len(trace.kept) == fits, {refusal.reason for refusal in trace.refusals}
    return took * 1000


def _bound(plugins: registry.Registry, state: snapshots.Snapshot) -> float:
    """Milliseconds of CPU for the first bind of a member, without the store."""
    member = _member(state)
    (node,) = pipeline.run_filter(plugins, cycles.cycle(member, frozenset(state.nodes), state)).kept
    cycle = cycles.cycle(member, frozenset((node,)), state)
    began = time.process_time()
    assert not pipeline.run_filter(plugins, cycle).refusals
    made = plans.commitment(plugins, cycle, node)
    assert isinstance(made, plans.Commitment), made
    event = events.PlacementsCommitted(placements=made.placements, claims=made.claims)
    projections.project(state, event)
    codecs.encode(event)
    took = time.process_time() - began
    assert len(made.placements) == MEMBERS
    return took * 1000


@dataclass(frozen=True, slots=True)
class World:
    """The cluster of the benchmark with GPUs, and a gang whose members request one each."""

    plugins: registry.Registry
    equipped: int = NODES
    """Nodes with a GPU."""
    members: int = MEMBERS
    launchers: int = 1
    """The first members, which may request something else than the others."""
    launcher: int = 10
    """Milli-units of CPU that each of these requests; others request 10."""
    launcher_gpus: int = 1
    occupied: bool = False
    """Whether every GPU is allocated to a pod."""
    quota: int | None = None
    """GPUs of the gang's quota."""
    policy: policy_model.WorkloadPolicy | None = None
    """What limits the members in each domain."""

    def state(self) -> snapshots.Snapshot:
        """The cluster with the gang waiting."""
        empty = snapshots.empty(schema=declared.SCHEMA, indexed=self.plugins.indexed())
        world = projections.project_all(empty, bench_cluster.facts(NODES, PODS))
        nodes = [
            events.NodeSeen(node=msgspec.structs.replace(node, allocatable={**node.allocatable, GPU: 1}))
            for node in itertools.islice(world.nodes.values(), self.equipped)
        ]
        group = gang_model.NativePodGroup(uid="gang", namespace="gangs", name="gang", minimum=self.members)
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
            for number, name in enumerate(world.nodes if self.occupied else ())
        ]
        members = [
            model.Pod(
                uid=f"member-{number}",
                namespace="gangs",
                name=f"member-{number}",
                group="gang",
                labels=self._labels(),
                requests={"cpu": self.launcher, GPU: self.launcher_gpus}
                if number < self.launchers
                else {"cpu": 10, GPU: 1},
            )
            for number in range(self.members)
        ]
        seen = [events.PodSeen(pod=pod) for pod in (*holders, *members)]
        objects = [group, *(_quotas(self.quota) if self.quota is not None else ())]
        objects += [self.policy] if self.policy is not None else []
        observed = [declared.SCHEMA.of(one).observed(one) for one in objects]
        return projections.project_all(world, [*nodes, *observed, *seen])

    def _labels(self) -> dict[str, str]:
        if self.policy is not None:
            return {logic.LABEL: self.policy.name, **APP}
        return {membership.LABEL: "research", **APP, "job": "gang"} if self.quota is not None else {}


def _policy(key: str, places: Mapping[str, int]) -> policy_model.WorkloadPolicy:
    """So many members in each domain of a label."""
    return policy_model.WorkloadPolicy(
        uid="spread",
        namespace="gangs",
        name="spread",
        topology_key=key,
        selector=model.Selector(APP),
        allocations=tuple(policy_model.Allocation(domain, most) for domain, most in places.items()),
        type="Required",
    )


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
    for case, milliseconds in measure_small_plans().items():
        print(f"12 members of two sizes on {NODES:,} nodes, {case}: {milliseconds:.1f} ms")
