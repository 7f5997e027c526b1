"""The plugin pipeline alone: the time of a decision without HTTP and without the store.

``python -m tests.bench.extender.pipeline_calls`` prints microseconds per call; it has no bars, unlike the
cases. The candidates are new strings, as a decoder creates them.
"""

import timeit
from collections.abc import Callable
from functools import partial

from app import plugins
from app.domain import model, projections, snapshots, verdicts
from app.framework import cycles, pipeline, registry
from app.plugins.workload_policy import policy_model
from app.verbs import candidates
from tests.bench.data import bench_cluster
from tests.support import declared

NODES, PODS = 5_000, 50_000
ZONE = "topology.kubernetes.io/zone"
ZONES = ("eu-central-1a", "eu-central-1b", "eu-central-1c")


def world(registered: registry.Registry) -> snapshots.Snapshot:
    """The bench's cluster, with a policy of three large domains beside those of a hundred small ones."""
    empty = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    snapshot = projections.project_all(empty, bench_cluster.facts(NODES, PODS))
    return projections.project_all(snapshot, [declared.observed(_zones(full)) for full in (0, 1, 3)])


def measure(rounds: int = 200) -> dict[str, float]:
    """Case -> microseconds of the best round."""
    registered = registry.Registry(kind() for kind in plugins.USUAL)
    snapshot = world(registered)
    names = [bench_cluster.node_name(number) for number in range(NODES)]
    offered = candidates.Candidates(names, everywhere=snapshot.topology.everywhere).nodes
    found: dict[str, float] = {}
    for policy in ("free", "half", "zones-0", "zones-1", "zones-3"):
        cycle = cycles.cycle(_pod(policy), offered, snapshot)
        filtered = pipeline.run_filter(registered, cycle)
        case = f"filter {policy}, {len(filtered.refused)} refused"
        found[case] = _best(partial(pipeline.run_filter, registered, cycle), rounds)
        found[f"score {policy}"] = _best(partial(pipeline.run_score, registered, cycle), rounds)
        kept = cycles.cycle(cycle.pod, filtered.kept, snapshot)
        found[f"score {policy}, kept only"] = _best(partial(pipeline.run_score, registered, kept), rounds)
    return found


def _best(call: Callable[[], verdicts.Trace], rounds: int) -> float:
    return min(timeit.repeat(call, number=1, repeat=rounds)) * 1e6


def _pod(policy: str) -> model.Pod:
    labels = {bench_cluster.POLICY_LABEL: policy}
    return model.Pod(uid=f"uid-{policy}", namespace=bench_cluster.NAMESPACE, name=policy, labels=labels)


def _zones(full: int) -> policy_model.WorkloadPolicy:
    """Three zones, ``full`` of them without capacity."""
    return policy_model.WorkloadPolicy(
        uid=f"uid-{full}",
        namespace=bench_cluster.NAMESPACE,
        name=f"zones-{full}",
        topology_key=ZONE,
        selector=model.Selector(labels={bench_cluster.POLICY_LABEL: f"zones-{full}"}),
        allocations=tuple(
            policy_model.Allocation(zone, 0 if n < full else 9) for n, zone in enumerate(ZONES)
        ),
        type="Required",
    )


if __name__ == "__main__":
    for case, microseconds in measure().items():
        print(f"{case:40} {microseconds:8.0f} us")
