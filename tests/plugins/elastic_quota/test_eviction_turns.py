"""Which of several pods that wait for one quota others are evicted for."""

from typing import TypeVar

import msgspec
import pytest

from app.domain import model
from app.framework import effects
from app.plugins.elastic_quota import evictions
from app.plugins.elastic_quota.plugin import ElasticQuota
from tests.support.decisions import scheduling_driver, small_gangs, small_quotas
from tests.support.decisions.quota_evictions import (
    cluster,
    full,
    names,
    pod,
    renewed,
    view,
    wanted,
)

FIRST, NEXT = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def in_use(second: int = 1) -> scheduling_driver.Cluster:
    """A quota of 10, in use: the pod "early" can have what v1 holds, and "late" needs what v2 holds, too."""
    return cluster(
        *(small_gangs.node(name, 16) for name in ("n1", "n2")),
        small_quotas.quota("q", 0, 10),
        pod("v1", 4, "q", "n1"),
        pod("v2", 4, "q", "n2", priority=second),
        pod("stays", 2, "q", "n2", priority=100),
        pod("early", 4, "q", priority=10, created=FIRST),
        pod("late", 6, "q", priority=30, created=NEXT),
    )


T = TypeVar("T", model.Pod, model.Node)


def with_gpus(made: T) -> T:
    """The pod with a request for four GPUs, or the node with as many."""
    if isinstance(made, model.Pod):
        return msgspec.structs.replace(made, requests={**made.requests, "gpu": 4})
    return msgspec.structs.replace(made, allocatable={**made.allocatable, "gpu": 4})


@pytest.mark.scenario("EQ-26")
@pytest.mark.parametrize("second", [1, 20], ids=["less important", "more important"])
def test_nothing_is_evicted_for_a_second_pod_while_the_first_one_waits_for_its_victim(second: int) -> None:
    """Whether or not what is left is less important than the first one."""
    small = in_use(second)
    assert names(wanted(small)) == [("elastic quota q: pod x/early", ["v1"])]
    small.see(pod("v1", 4, "q", "n1", terminating=True))
    assert names(wanted(small)) == []
    assert view(small, "q")["preemption"] is None
    small.gone(pod("v1", 4, "q"))
    small.see(pod("early", 4, "q", "n1", priority=10))
    assert names(wanted(small)) == []


@pytest.mark.scenario("EQ-26")
def test_a_pod_that_terminates_for_long_keeps_no_other_pod_from_what_it_does_not_free() -> None:
    """The first pod has what the terminating one leaves, and the second one needs nothing of that."""
    limits = msgspec.structs.replace(small_quotas.quota("q", 0, 12), max={"cpu": 12_000, "gpu": 4})
    small = cluster(
        *(with_gpus(small_gangs.node(name, 32)) for name in ("n1", "n2")),
        limits,
        with_gpus(pod("stuck", 1, "q", "n1", terminating=True)),
        pod("v2", 10, "q", "n2", priority=1),
        with_gpus(pod("early", 1, "q", priority=10, created=FIRST)),
        pod("late", 10, "q", priority=30, created=NEXT),
    )
    assert names(wanted(small)) == [("elastic quota q: pod x/late", ["v2"])]


@pytest.mark.scenario("EQ-26")
def test_a_pod_of_a_sibling_counts_as_having_what_terminates() -> None:
    """Both quotas are limited by their parent."""
    rules = ElasticQuota(runtime=False, quota_preemption="evict", check_parents=True)
    small = cluster(
        *(small_gangs.node(name, 16) for name in ("n1", "n2")),
        small_quotas.quota("p", 0, 10, is_parent=True),
        *(small_quotas.quota(name, 0, 10, parent="p") for name in ("a", "b")),
        pod("v1", 4, "a", "n1", terminating=True),
        pod("v2", 4, "b", "n2", priority=1),
        pod("stays", 2, "b", "n2", priority=100),
        pod("early", 4, "a", priority=10, created=FIRST),
        pod("late", 6, "b", priority=30, created=NEXT),
        rules=rules,
    )
    assert names(wanted(small, rules)) == []


@pytest.mark.scenario("EQ-26")
def test_an_eviction_is_given_up_once_an_earlier_pod_waits_for_what_terminates() -> None:
    small = in_use()
    small.see(pod("v1", 4, "q", "n1", terminating=True))
    small.see(pod("early", 4, "q", priority=10, created=FIRST, unscheduled=""))
    (for_late,) = wanted(small) or ()
    assert renewed(for_late, small) is not None
    small.see(pod("early", 4, "q", priority=10, created=FIRST))
    assert renewed(for_late, small) is None


def test_a_pod_that_the_quota_admits_at_present_waits_for_nothing_that_terminates() -> None:
    """Its condition is older, or its gang is refused."""
    small = in_use()
    small.see(small_quotas.quota("q", 0, 14))
    small.see(pod("v1", 4, "q", "n1", terminating=True))
    small.see(pod("late", 10, "q", priority=30, created=NEXT))
    assert names(wanted(small)) == [("elastic quota q: pod x/late", ["v2"])]


def test_a_pod_that_waits_and_is_deleted_takes_nothing_of_what_terminates() -> None:
    small = in_use()
    small.see(pod("v1", 4, "q", "n1", terminating=True))
    small.see(pod("early", 4, "q", priority=10, created=FIRST, terminating=True))
    assert names(wanted(small)) == [("elastic quota q: pod x/late", ["v2"])]


@pytest.mark.scenario("EQ-26")
def test_pods_that_preempt_none_keep_no_other_pod_from_an_eviction() -> None:
    """However many there are, and for the view, too, which tries one of equal pods whatever their owners."""
    small = full(changed={"created": NEXT})
    never = pod("never", 4, "q", priority=9, created=FIRST, preemption_policy="Never")
    for number in range(evictions.TRIED):
        small.see(msgspec.structs.replace(never, uid=f"never-{number}", name=f"never-{number}"))
    unopposed = effects.Changes(objection=lambda *_: None)
    assert names(wanted(small, changes=unopposed)) == [("elastic quota q: pod x/asks", ["low"])]
    shown = view(small, "q")["preemption"]
    assert isinstance(shown, dict)
    assert shown["pod"] == "x/asks"


REPLICA = (model.Owner(kind="ReplicaSet", name="r", uid="r"),)


def two_replicas(*others: model.Pod) -> scheduling_driver.Cluster:
    """A quota of 14 of which 8 terminate: two equal pods of one owner wait for those, and "late" for more."""
    return cluster(
        *(small_gangs.node(name, 32) for name in ("n1", "n2", "n3")),
        small_quotas.quota("q", 0, 14),
        *(pod(name, 4, "q", "n1", terminating=True) for name in ("v1", "v2")),
        *(pod(name, 4, "q", priority=10, created=FIRST, owners=REPLICA) for name in ("early-1", "early-2")),
        pod("late", 6, "q", priority=30, created=NEXT),
        *others,
    )


@pytest.mark.scenario("EQ-26")
def test_each_of_equal_pods_counts_as_having_what_terminates() -> None:
    """Without the pod of two cores, the third one would count on what the second one waits for."""
    small = two_replicas(pod("small", 2, "q", "n2"), pod("stays", 4, "q", "n2", priority=100))
    assert names(wanted(small)) == []
    assert view(small, "q")["preemption"] is None


@pytest.mark.scenario("EQ-26")
def test_what_is_evicted_beside_equal_pods_is_enough_for_all_of_them() -> None:
    small = two_replicas(pod("small", 2, "q", "n2"), pod("large", 6, "q", "n3", priority=5))
    small.see(small_quotas.quota("q", 0, 16))
    small.see(pod("late", 6, "q", priority=10, created=NEXT))
    assert names(wanted(small)) == [("elastic quota q: pod x/late", ["large"])]


@pytest.mark.scenario("EQ-26")
def test_what_was_evicted_for_a_pod_is_not_evicted_again_while_equal_pods_wait_longer() -> None:
    """Of the pods that terminate one was evicted for the first of them, and the other for "late"."""
    small = two_replicas(pod("low", 4, "q", "n2"), pod("stays", 2, "q", "n2", priority=100))
    small.see(pod("late", 4, "q", priority=30, created=NEXT))
    assert names(wanted(small)) == []


@pytest.mark.scenario("EQ-26")
@pytest.mark.parametrize(("priority", "expected"), [(30, []), (10, ["low"])], ids=["first", "second"])
def test_nothing_is_evicted_for_a_pod_that_takes_what_terminates_first(
    priority: int, expected: list[str]
) -> None:
    """kube-scheduler tries the more important pod first, whichever waits longer."""
    small = cluster(
        *(small_gangs.node(name, 32) for name in ("n1", "n2")),
        small_quotas.quota("q", 0, 8),
        pod("v1", 4, "q", "n1", terminating=True),
        pod("low", 4, "q", "n2", priority=9),
        pod("early", 4, "q", priority=10, created=FIRST),
        pod("late", 4, "q", priority=priority, created=NEXT),
    )
    small.see(pod("late", 4, "q", priority=priority, created=NEXT, owners=REPLICA))
    found = names(wanted(small, changes=effects.Changes(objection=lambda *_: None)))
    assert [victims for _, victims in found] == ([expected] if expected else [])


@pytest.mark.scenario("EQ-26")
def test_an_equal_pod_of_a_quota_that_is_helped_counts_as_having_what_terminates() -> None:
    """Of 14 cores 8 terminate, for which "a1" and "a2" wait; "b4" could be helped if "a2" were not there."""
    rules = ElasticQuota(runtime=False, quota_preemption="evict", check_parents=True)
    small = cluster(
        *(small_gangs.node(name, 200) for name in ("n1", "n2")),
        small_quotas.quota("p", 0, 14, is_parent=True),
        *(small_quotas.quota(name, 0, 14, parent="p") for name in ("a", "b")),
        *(pod(name, 4, "a", "n1", terminating=True) for name in ("v1", "v2")),
        pod("low-a", 4, "a", "n1"),
        pod("low-b", 2, "b", "n2"),
        pod("a1", 4, "a", priority=10, created="2026-01-01T00:00:00Z", owners=REPLICA),
        pod("helped", 6, "a", priority=10, created="2026-01-02T00:00:00Z"),
        pod("skipped", 7, "a", priority=10, created="2026-01-03T00:00:00Z"),
        pod("a2", 4, "a", priority=10, created="2026-01-04T00:00:00Z", owners=REPLICA),
        *(pod(f"b{turn}", 100 + turn, "b", priority=10, created=FIRST) for turn in (1, 2, 3)),
        pod("b4", 6, "b", priority=10, created=NEXT),
        rules=rules,
    )
    assert names(wanted(small, rules)) == [("elastic quota a: pod x/helped", ["low-a"])]
