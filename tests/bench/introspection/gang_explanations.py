"""The time to explain a member of a gang that its quota refuses: 20 gangs of 8, of which ten may run."""

import statistics
import time
from collections.abc import Iterator

import msgspec

from app import plugins
from app.domain import events, model, projections, snapshots
from app.framework import registry
from app.plugins.coscheduling.gang_model import SigsPodGroup
from app.plugins.coscheduling.membership import SIGS_LABEL
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota import kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.quota_model import Quota
from app.store.state import gc_pause
from app.verbs.explain import explanations, tables
from tests.bench.data import bench_cluster
from tests.support import declared

NODES, PODS = 5_000, 50_000
GANGS, SIZE, ADMITTED = 20, 8, 10
NAMESPACE = "limited"
ROUNDS = 5


def measure_explanations() -> dict[int, float]:
    """Members that the quota would still admit -> milliseconds of CPU for the explanation after an event.

    Advice that helps is found where some are admitted, and none where none is.
    """
    # As in a process of the product, no collection scans the objects of the first state.
    with gc_pause.paused(lasting=True):
        return {left: _measured(left) for left in (4, 0)}


def _measured(left: int) -> float:
    registered = registry.Registry(
        [*(kind() for kind in plugins.USUAL), ElasticQuota(), Coscheduling(layers=(bench_cluster.RACK,))]
    )
    empty = snapshots.empty(schema=declared.SCHEMA, indexed=registered.indexed())
    world = projections.project_all(empty, [*bench_cluster.facts(NODES, PODS), *_gangs(left)])
    pod = world.pod_named(NAMESPACE, f"g{GANGS - 1}-0")
    assert pod is not None
    resident = next(one for one in world.pods.values() if one.node)
    world.add_up()
    took = []
    for number in range(ROUNDS):
        bound = msgspec.structs.replace(resident, uid=f"new-{number}", name=f"new-{number}")
        world = projections.project(world, events.PodSeen(pod=bound))
        began = time.process_time()
        found = explanations.presently(pod, world, registered)
        tables.structure(found)
        took.append(1000 * (time.process_time() - began))
        assert not found.fits
        assert any("fewer" in change for change in found.changes) == bool(left)
    return statistics.median(took)


def _gangs(left: int) -> Iterator[events.AnyEvent]:
    """The gangs and the quota of their namespace, which most of its cores are used of."""
    amounts = {"cpu": 1_000 * (ADMITTED * SIZE + left)}
    quota = Quota(uid=NAMESPACE, namespace=NAMESPACE, name=NAMESPACE, min=amounts, max=amounts)
    yield kinds.QUOTAS.observed(quota)
    for gang in range(GANGS):
        name = f"g{gang}"
        group = SigsPodGroup(uid=name, namespace=NAMESPACE, name=name, minimum=SIZE)
        yield declared.SCHEMA.of(group).observed(group)
        for member in range(SIZE):
            node = bench_cluster.node_name(gang * SIZE + member) if gang < ADMITTED else ""
            pod = model.Pod(
                uid=f"{name}-{member}",
                namespace=NAMESPACE,
                name=f"{name}-{member}",
                labels={SIGS_LABEL: name},
                requests={"cpu": 1_000},
                node=node,
                phase="Running" if node else "Pending",
            )
            yield events.PodSeen(pod=pod)


if __name__ == "__main__":
    for count, milliseconds in measure_explanations().items():
        print(f"explain of a member, {count} of its gang are admitted: {milliseconds:.1f} ms")
