"""Which pods an eviction for a quota can free something of, and which budgets it meets."""

import msgspec
import pytest

from app.domain import model
from app.domain.fit import budgets
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from tests.support.decisions import scheduling_driver, small_gangs, small_quotas
from tests.support.decisions.quota_evictions import cluster, full, names, pod, view, wanted

OVERUSE = ElasticQuota(runtime=False, overuse="evict")


def owned(kind: str, *, controller: bool = True) -> tuple[model.Owner, ...]:
    return (model.Owner(kind, "o", "uid-o", controller),)


def over(*, owners: tuple[model.Owner, ...] = ()) -> scheduling_driver.Cluster:
    """A quota that uses 4 more than its max, and its least important pod of these owners."""
    return cluster(
        small_gangs.node("n1", 16),
        small_quotas.quota("q", 0, 4),
        pod("least", 4, "q", "n1", owners=owners),
        pod("other", 4, "q", "n1", priority=1),
        rules=OVERUSE,
    )


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_a_pod_that_belongs_to_its_node_is_not_evicted_for_one_that_waits(kind: str) -> None:
    small = full()
    small.see(pod("low", 4, "q", "n1", owners=owned(kind)))
    assert names(wanted(small)) == [("elastic quota q: pod x/asks", ["middle"])]
    small.see(pod("middle", 8, "q", "n2", priority=5, owners=owned(kind)))
    assert names(wanted(small)) == []
    assert view(small, "q")["preemption"] is None


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_a_pod_that_belongs_to_its_node_stays_above_a_runtime(kind: str) -> None:
    small = over(owners=owned(kind))
    assert names(wanted(small, OVERUSE)) == [("elastic quota q: overuse", ["other"])]
    small.see(pod("other", 4, "q", "n1", priority=1, owners=owned(kind)))
    assert names(wanted(small, OVERUSE)) == []
    assert view(small, "q", OVERUSE)["overuse"] == []


@pytest.mark.parametrize(
    "owners", [owned("ReplicaSet"), owned("DaemonSet", controller=False)], ids=["other kind", "no controller"]
)
def test_a_pod_of_another_owner_goes(owners: tuple[model.Owner, ...]) -> None:
    assert names(wanted(over(owners=owners), OVERUSE)) == [("elastic quota q: overuse", ["least"])]


def test_budgets_do_not_keep_a_pod_that_has_not_started() -> None:
    """The Eviction API evicts it at once, also if it has several of them."""
    limits = [
        budgets.DisruptionBudget(
            uid=name, namespace="x", name=name, selector=model.Selector({membership.LABEL: "q"}), allowed=0
        )
        for name in ("first", "second")
    ]
    small, above = full(), over()
    for limit in limits:
        for one in (small, above):
            one.see(limit)
    assert names(wanted(small)) == []
    small.see(msgspec.structs.replace(pod("low", 4, "q", "n1"), phase="Pending"))
    assert names(wanted(small)) == [("elastic quota q: pod x/asks", ["low"])]
    (found,) = wanted(above, OVERUSE) or ()
    assert found.pods == ()
    above.see(msgspec.structs.replace(pod("least", 4, "q", "n1"), phase="Pending"))
    (found,) = wanted(above, OVERUSE) or ()
    assert ([one.name for one in found.pods], found.unsupported) == (["least"], ())
