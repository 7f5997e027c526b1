"""Scenarios of ElasticQuota: which pods wake when a quota has capacity again, and at which cost."""

import msgspec
import pytest

from app.domain import events, model, snapshots
from app.plugins.elastic_quota import admission, families, kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from tests.support.decisions import scheduling_driver
from tests.support.decisions.small_quotas import CORE, cluster, node, pod, quota, runtime


def woken(small: scheduling_driver.Cluster, event: events.AnyEvent) -> list[str]:
    before = small.snapshot
    small.take(event)
    found = ElasticQuota().wake(before, small.snapshot, (event,))
    return [] if found is None else [one.name for one in found.pods]


@pytest.mark.scenario("EQ-20")
def test_pods_wake_when_another_quota_requests_less() -> None:
    waiting = [pod(f"a{n}", 15, "a", priority=n) for n in range(4)]
    other = pod("b", 100, "b")
    small = cluster(node("n1", 100), quota("a", 20, 100), quota("b", 20, 100), *waiting, other)
    small.see(pod("runs", 50, "a", node="n1"))
    assert runtime(small, "a") == 50
    assert {small.why(one) for one in waiting} == {"elastic quota a: no capacity in cpu"}
    before = small.snapshot
    small.gone(other)
    assert runtime(small, "a") == 100
    event = events.PodGone(uid=other.uid, namespace=other.namespace, name=other.name)
    found = ElasticQuota().wake(before, small.snapshot, (event,))
    assert found is not None
    assert [one.name for one in found.pods] == ["a3", "a2", "a1"]
    assert found.message == "elastic quota a has capacity again"


@pytest.mark.scenario("EQ-20")
@pytest.mark.parametrize("changed", [{"terminating": True}, {"gated": True}], ids=str)
def test_pods_wake_when_pods_that_do_not_wait_for_a_node_request_less(changed: dict[str, bool]) -> None:
    """Such as pods of a Job, which terminate until the Job controller has counted them."""
    other = pod("b", 100, "b")
    small = cluster(node("n1", 100), quota("a", 20, 100), quota("b", 20, 100), pod("a0", 15, "a"), other)
    small.see(pod("runs", 50, "a", node="n1"))
    assert woken(small, events.PodSeen(pod=msgspec.structs.replace(other, **changed))) == []
    event = events.PodGone(uid=other.uid, namespace=other.namespace, name=other.name)
    assert woken(small, event) == ["a0"]


@pytest.mark.scenario("EQ-20")
def test_pods_wake_when_pods_of_another_quota_end_without_a_node() -> None:
    """Such as those of a suspended Job, which are Failed before they are gone."""
    other = pod("b", 100, "b")
    small = cluster(node("n1", 100), quota("a", 20, 100), quota("b", 20, 100), pod("a0", 15, "a"), other)
    small.see(pod("runs", 50, "a", node="n1"))
    assert woken(small, events.PodSeen(pod=msgspec.structs.replace(other, phase="Failed"))) == ["a0"]
    event = events.PodGone(uid=other.uid, namespace=other.namespace, name=other.name)
    assert woken(small, event) == []


def test_a_pending_pod_that_ends_costs_nothing_while_no_limit_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant deletes a job of many pods that wait: the others that wait are not evaluated for each."""
    many = [pod(f"a{n}", 10, "a") for n in range(50)]
    small = cluster(node("n1", 100), quota("a", 20, 100), quota("b", 20, 100), *many, pod("b", 50, "b"))
    looked = list[model.Pod]()

    def precedence(one: model.Pod) -> int:
        looked.append(one)
        return 0

    monkeypatch.setattr(model.Pod, "precedence", property(precedence))
    for one in many[:30]:
        event = events.PodGone(uid=one.uid, namespace=one.namespace, name=one.name)
        assert woken(small, event) == []
    assert looked == []


def released(pod: model.Pod) -> events.PlacementReleased:
    return events.PlacementReleased(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, node="n1", reason="lost", cause="unbound"
    )


def test_a_release_evaluates_the_pods_of_its_quota_one_by_one_and_others_by_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gang of 1,000 may be released while thousands of pods wait."""
    names = ("a", "b", "c")
    waits = [pod(f"{name}{n}", 2, name) for name in names for n in range(50)]
    runs = [pod(f"runs-{name}", 3, name, node="n1") for name in names]
    small = cluster(node("n1", 100), *(quota(name, 0, 5) for name in names), *runs, *waits)
    small.place(flying := pod("flying", 2, "b"), "n1")
    asked, sorted_by = list[str](), list[str]()
    admissions = families.admissions

    def counted(state: snapshots.Snapshot, one: model.Pod, rules: admission.QuotaRules) -> object:
        asked.append(one.name)
        return admissions(state, one, rules)

    def looked(one: model.Pod) -> tuple[int, str, str]:
        sorted_by.append(one.name)
        return -one.priority, one.created, one.uid

    monkeypatch.setattr(families, "admissions", counted)
    monkeypatch.setattr(model.Pod, "precedence", property(looked))
    assert woken(small, released(flying)) == ["b0"]
    assert len(asked) == 2 * len(names)
    assert set(sorted_by) == {one.name for one in waits if one.labels == waits[50].labels}


def test_a_pod_wakes_for_a_resource_that_more_important_pods_do_not_request() -> None:
    q = quota("q", 0, 4, max={"cpu": 4 * CORE, "example.com/gpu": 1})
    has = node("n1", 100, allocatable={"cpu": 100 * CORE, "example.com/gpu": 8})
    small = cluster(has, q, pod("runs", 4, "q", node="n1"), pod("cpu", 2, "q", priority=9))
    small.see(gpu := pod("gpu", 0, "q", requests={"example.com/gpu": 1}))
    flying = msgspec.structs.replace(gpu, uid="uid-flying", name="flying")
    small.place(flying, "n1")
    assert small.filter(gpu).refused
    assert woken(small, released(flying)) == ["gpu"]


def test_pods_wake_when_their_quota_is_raised_or_a_placement_released() -> None:
    q, waits = quota("q", 0, 4), pod("waits", 2, "q")
    small = cluster(node("n1", 100), q, pod("runs", 4, "q", node="n1"), waits)
    raised = msgspec.structs.replace(q, max={"cpu": 7 * CORE})
    assert woken(small, kinds.QUOTAS.observed(raised)) == ["waits"]
    lowered = msgspec.structs.replace(q, max={"cpu": 6 * CORE})
    assert woken(small, kinds.QUOTAS.observed(lowered)) == []
    small.place(flying := pod("flying", 2, "q"), "n1")
    assert small.filter(waits).refused
    assert woken(small, released(flying)) == ["waits"]
    assert woken(small, kinds.QUOTAS.gone(q.namespace, q.name, q.uid)) == ["waits"]
