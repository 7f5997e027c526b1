"""The effects of a plugin follow from the snapshot: a second call on it has the same ones."""

import msgspec
import pytest

from app import plugins
from app.domain import snapshots
from app.framework import capabilities, effects
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.decisions import scheduling_driver, small_clusters, small_gangs, small_quotas

RECONCILING: dict[str, capabilities.Reconciles] = {
    "policies": WorkloadPolicy(),
    "quotas": ElasticQuota(),
    "quotas that evict": ElasticQuota(quota_preemption="evict", overuse="evict"),
    "gangs": Coscheduling(),
}


def world() -> snapshots.Snapshot:
    """Policies, quotas of which one is overdrawn, and gangs that lack members and capacity."""
    limited = {membership.LABEL: "small"}
    pods = [small_gangs.pod(f"p{number}", labels=limited) for number in range(4)]
    made = scheduling_driver.Cluster(
        *small_clusters.f6(),
        small_gangs.node("n1"),
        small_clusters.policy({"host": 2, "member": 2}),
        small_quotas.quota("small", 1, 2),
        small_quotas.quota("other", 1, 20),
        *pods,
        small_gangs.sigs("late", 3),
        *(small_gangs.pod(f"late{n}", labels={"scheduling.x-k8s.io/pod-group": "late"}) for n in range(2)),
        small_gangs.sigs("large", 2),
        *(
            small_gangs.pod(f"large{n}", 80, labels={"scheduling.x-k8s.io/pod-group": "large"})
            for n in range(2)
        ),
        configured=[kind() for kind in plugins.IN_TREE],
    )
    for pod in pods[:3]:  # by another scheduler: more than the quota's max
        made.see(msgspec.structs.replace(pod, node="n1", phase="Running"))
    return made.snapshot


def test_every_plugin_that_reconciles_is_here() -> None:
    found = {plugin.name for kind in plugins.IN_TREE if isinstance(plugin := kind(), capabilities.Reconciles)}
    assert {plugin.name for plugin in RECONCILING.values()} == found


@pytest.mark.scenario("TR-12")
@pytest.mark.parametrize("name", RECONCILING)
def test_a_second_call_on_one_snapshot_has_the_same_effects(name: str) -> None:
    plugin = RECONCILING[name]
    snapshot, changes = world(), effects.Changes(missed=True)
    first = list(plugin.reconcile(snapshot, changes))
    assert any(isinstance(one, effects.PatchStatus) for one in first)
    assert list(plugin.reconcile(snapshot, changes)) == first
    assert list(plugin.reconcile(world(), changes)) == first, "nor do they depend on what it was asked before"
