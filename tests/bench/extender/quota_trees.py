"""The time for quotas: runtimes of 1,000 quotas in a tree of five levels, and a filter under one of them."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import msgspec

from app import plugins
from app.api.extender import calls, replies
from app.domain import events, model, projections, snapshots
from app.framework import cycles, pipeline, registry
from app.plugins.elastic_quota import admission, kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.trees import membership, usage
from app.verbs import candidates
from tests.bench.data import bench_cluster
from tests.support import declared

NODES, PODS, PENDING = 5_000, 50_000, 5_000
WIDTHS = (4, 16, 80, 300, 600)
"""Quotas of each level: 1,000 in all."""
ROUNDS = 15
PAIRS = 200
"""Rounds of each compared case."""


def measure_quotas() -> dict[str, float]:
    """``changed`` and ``unchanged`` -> milliseconds of CPU for all runtimes after an event.

    ``quota`` and ``policy`` -> milliseconds of the plugins' filters alone, after a placement in a quota;
    ``decided by a quota`` and ``decided by a policy`` -> of a whole decision, from names to reply; ``decided
    by a quota, unobserved``: of one about a pod that the log does not hold yet.
    """
    registered = registry.Registry([*(kind() for kind in plugins.USUAL), ElasticQuota()])
    world = _world(registered)
    rules = admission.sharing(ElasticQuota())
    tree = partial(usage.of_tree, name="", rules=rules)
    quota, policy = _pod("asked-1", _names()[-1][0], ""), _pod("asked-2", "", bench_cluster.FREE)
    unobserved = _pod("asked-3", _names()[-1][0], "")
    world = projections.project_all(world, [events.PodSeen(pod=quota), events.PodSeen(pod=policy)])
    _whole(tree(world))
    spelled = msgspec.json.encode([bench_cluster.node_name(number) for number in range(NODES)])
    return {
        "changed": _median(world, _pending, lambda state: _whole(tree(state))),
        "unchanged": _median(world, _flag, lambda state: tree(state)),
        **_alternating(
            world,
            {
                "quota": partial(_filtered, registered, quota),
                "policy": partial(_filtered, registered, policy),
                "decided by a quota": partial(_decided, registered, quota, spelled),
                "decided by a quota, unobserved": partial(_decided, registered, unobserved, spelled),
                "decided by a policy": partial(_decided, registered, policy, spelled),
            },
        ),
    }


def _whole(found: usage.TreeUsage) -> None:
    """Compute the runtimes of all quotas, each of which is lazy."""
    for name in found.tree.names:
        found.runtimes.runtime(name)


def _median(
    world: snapshots.Snapshot,
    event: Callable[[int], events.AnyEvent],
    call: Callable[[snapshots.Snapshot], object],
) -> float:
    took = []
    for number in range(ROUNDS):
        world = projections.project(world, event(number))
        took.append(_milliseconds(call, world))
    return statistics.median(took)


def _alternating(
    world: snapshots.Snapshot, cases: dict[str, Callable[[snapshots.Snapshot], object]]
) -> dict[str, float]:
    """The calls in turns, each on a snapshot right after a placement."""
    took: dict[str, list[float]] = {case: [] for case in cases}
    for number in range(PAIRS * len(cases)):
        case = list(cases)[number % len(cases)]
        world = projections.project(world, _placed(number))
        took[case].append(_milliseconds(cases[case], world))
    return {case: statistics.median(found) for case, found in took.items()}


def _milliseconds(call: Callable[[snapshots.Snapshot], object], world: snapshots.Snapshot) -> float:
    began = time.process_time()
    call(world)
    return (time.process_time() - began) * 1000


def _filtered(registered: registry.Registry, pod: model.Pod, state: snapshots.Snapshot) -> None:
    assert pipeline.run_filter(registered, cycles.cycle(pod, state.topology.everywhere, state)).kept


def _decided(
    registered: registry.Registry, pod: model.Pod, spelled: bytes, state: snapshots.Snapshot
) -> None:
    """As the verb does it: the offered names, the filters, and the reply with the kept names."""
    names = msgspec.json.decode(spelled, type=list[str])
    offered = candidates.Candidates(names, spelled, everywhere=state.topology.everywhere)
    trace = pipeline.run_filter(registered, cycles.cycle(pod, offered.nodes, state, offered=True))
    kept = replies.kept_names(offered, trace)
    replies.filter_reply(calls.Call(b"", spelled, None), offered, trace, None, kept)


def _pending(number: int) -> events.AnyEvent:
    """A further pending pod of a quota."""
    return events.PodSeen(pod=_pod(f"changed-{number}", _names()[-1][number], ""))


def _flag(number: int) -> events.AnyEvent:
    return events.FlagSet(flag=model.Flag(name="v", value=str(number)))


def _placed(number: int) -> events.AnyEvent:
    """The placement of a pending pod, which leaves the requests of its quota unchanged."""
    lowest = _names()[-1]
    waiting = _pod(f"waits-{number}", lowest[number % len(lowest)], "")
    return events.placed(waiting, bench_cluster.node_name(number))


def _names() -> list[list[str]]:
    return [[f"q{level}-{number}" for number in range(width)] for level, width in enumerate(WIDTHS)]


def _pod(name: str, quota: str, policy: str) -> model.Pod:
    labels = {membership.LABEL: quota} if quota else {bench_cluster.POLICY_LABEL: policy}
    return model.Pod(
        uid=f"uid-{name}",
        namespace=bench_cluster.NAMESPACE,
        name=name,
        labels=labels,
        requests={"cpu": 250, "memory": 512 << 20},
        phase="Pending",
    )


def _world(registered: registry.Registry) -> snapshots.Snapshot:
    """The cluster of the benchmark with the tree, and pending pods in its lowest quotas."""
    world = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    levels = _names()
    quotas = [
        kinds.QUOTAS.observed(
            Quota(
                uid=f"uid-{name}",
                namespace="quotas",
                name=name,
                created="2026-11-02T08:30:00Z",
                min={"cpu": 100_000_000 // len(names), "memory": (400 << 40) // len(names)},
                max={"cpu": 200_000_000, "memory": 800 << 40},
                parent=levels[level - 1][number % len(levels[level - 1])] if level else "",
                is_parent=level + 1 < len(levels),
            )
        )
        for level, names in enumerate(levels)
        for number, name in enumerate(names)
    ]
    world = projections.project_all(world, [*quotas, *bench_cluster.facts(NODES, PODS)])
    lowest = levels[-1]
    waiting = [
        events.PodSeen(pod=_pod(f"waits-{number}", lowest[number % len(lowest)], ""))
        for number in range(PENDING)
    ]
    return projections.project_all(world, waiting)


if __name__ == "__main__":
    for case, milliseconds in measure_quotas().items():
        print(f"{case}: {milliseconds:.2f} ms")
