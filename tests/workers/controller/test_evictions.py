"""EvictPods: which pods are evicted, one after the other, and what follows if the API server refuses."""

import json

import pytest
import structlog

from app.domain import snapshots
from app.framework import effects
from app.simulation.apiserver import faults
from tests.support.workers import clusters
from tests.support.workers.evictors import Evicting, Protects, outcomes
from workers.controller import evictions

EVICT = faults.calls("POST", "/eviction")


@pytest.mark.scenario("EQ-26", "TR-17")
def test_one_pod_is_evicted_and_the_next_once_the_state_shows_that_it_terminates(evicting: Evicting) -> None:
    before = outcomes()["evicted"]
    evicting.want("a b", "c")
    assert evicting.asked() == ["a"]
    assert evicting.asked(after=evictions.SEEN - 1) == []
    evicting.observe()
    assert evicting.pod("a").terminating
    evicting.want("a b", "c")
    assert evicting.asked() == ["b"]
    evicting.observe()
    evicting.want("a b", "c")
    assert evicting.asked(after=evictions.EVERY / 2) == []
    assert evicting.asked(after=evictions.EVERY) == ["c"]
    assert outcomes()["evicted"] == before + 3
    assert [(one.about.key, one.reason, one.message) for one in evicting.posted] == [
        ("ns/a", evictions.EVICTED, "for a b"),
        ("ns/b", evictions.EVICTED, "for a b"),
        ("ns/c", evictions.EVICTED, "for c"),
    ]


@pytest.mark.scenario("TR-17")
def test_what_was_wanted_in_a_state_without_the_former_eviction_waits(evicting: Evicting) -> None:
    """A pod may have ended meanwhile: with what the former one frees, that is enough."""
    evicting.want("a b", "c")
    assert evicting.asked() == ["a"]
    evicting.observe()
    assert evicting.pod("a").terminating
    assert evicting.asked(after=evictions.SEEN - 1) == []
    evicting.want("c")
    assert evicting.asked() == ["c"]


def test_the_pod_is_evicted_with_its_grace_and_its_uid(evicting: Evicting) -> None:
    evicting.want("a")
    evicting.evictor.run_once()
    (asked,) = [one for one in evicting.cluster.server.seen if one.path.endswith("/eviction")]
    sent = json.loads(asked.body)
    assert (sent["apiVersion"], sent["kind"]) == ("policy/v1", "Eviction")
    assert sent["deleteOptions"] == {"preconditions": {"uid": evicting.pod("a").uid}}
    evicting.observe()
    assert evicting.pod("a").terminating
    assert evicting.pod("a").disrupted


@pytest.mark.scenario("TR-17")
def test_a_budget_that_refuses_is_asked_again_later_and_no_other_pod_goes_meanwhile(
    evicting: Evicting,
) -> None:
    evicting.budget("a", 0)
    before = outcomes()["budget"]
    evicting.want("a b")
    assert evicting.asked() == ["a"]
    assert outcomes()["budget"] == before + 1
    for _ in range(9):
        evicting.want("a b")
        assert evicting.asked(after=1) == []
    assert evicting.asked(after=1) == ["a"]
    evicting.observe()
    assert not evicting.pod("a").terminating
    evicting.allow("a")
    assert evicting.asked(after=evictions.RETRY) == ["a"]
    evicting.observe()
    assert evicting.pod("a").terminating
    assert [one.reason for one in evicting.posted] == [
        evictions.NOT_EVICTED,
        evictions.NOT_EVICTED,
        evictions.EVICTED,
    ]
    assert "disruption budget" in evicting.posted[0].message


def test_a_budget_that_refuses_delays_neither_other_subjects_nor_other_calls(evicting: Evicting) -> None:
    evicting.budget("a", 0)
    evicting.want("a", "b")
    assert evicting.asked() == ["a"]
    assert evicting.asked() == ["b"]
    assert evicting.clock.waits == []


def test_several_budgets_of_one_pod_are_reported_and_delay_no_other_call(evicting: Evicting) -> None:
    """The Eviction API supports one, and answers 500."""
    evicting.budget("a", 1)
    evicting.budget("a", 1, called="other")
    before = outcomes()["budget"]
    evicting.want("a", "b")
    assert evicting.asked() == ["a"]
    assert outcomes()["budget"] == before + 1
    (posted,) = evicting.posted
    assert (posted.about.key, posted.reason) == ("ns/a", evictions.NOT_EVICTED)
    assert "This pod has more than one PodDisruptionBudget" in posted.message
    assert evicting.asked() == ["b"]
    assert evicting.clock.waits == []


def test_a_pod_that_the_api_never_evicts_is_reported_once_and_the_others_go(evicting: Evicting) -> None:
    reported = ("ns/c", evictions.NOT_EVICTED, f"a: {evictions.UNSUPPORTED}")

    def posted() -> list[tuple[str, str, str]]:
        return [
            (one.about.key, one.reason, one.message)
            for one in evicting.posted
            if one.reason == evictions.NOT_EVICTED
        ]

    evicting.want("a", unsupported="c", after=120)
    assert evicting.asked(after=119) == []
    assert posted() == []
    assert evicting.asked(after=1) == ["a"]
    assert posted() == [reported]
    evicting.observe()
    for _ in range(3):
        evicting.want("a", unsupported="c", after=120)
        assert evicting.asked(after=evictions.RETRY) == []
    assert posted() == [reported]
    evicting.want()
    assert evicting.asked() == []
    evicting.want("a", unsupported="c")
    assert evicting.asked() == []
    assert posted() == [reported, reported]


def test_what_is_no_longer_wanted_is_not_evicted(evicting: Evicting) -> None:
    evicting.want("a", "b")
    evicting.want("c")
    assert evicting.asked() == ["c"]
    evicting.observe()
    evicting.want()
    assert evicting.asked(after=100) == []


def test_a_subject_has_to_be_wanted_without_interruption(evicting: Evicting) -> None:
    evicting.want("a", after=120)
    assert evicting.asked(after=100) == []
    evicting.want("a", after=120)
    assert evicting.asked(after=19) == []
    evicting.want("b", after=120)
    evicting.want("a", after=120)
    assert evicting.asked(after=119) == []
    assert evicting.asked(after=1) == ["a"]


def test_the_time_begins_again_with_the_next_leadership(evicting: Evicting) -> None:
    evicting.want("a", after=120)
    assert evicting.asked(after=100) == []
    evicting.term = lambda: "next"
    evicting.want("a", after=120, term="next")
    assert evicting.asked(after=119) == []
    assert evicting.asked(after=1) == ["a"]


def test_nothing_is_evicted_after_the_leadership(evicting: Evicting) -> None:
    before = outcomes()
    evicting.want("a")
    evicting.term = lambda: None
    assert evicting.asked() == []
    assert outcomes() == before


@pytest.mark.scenario("TR-17")
def test_what_is_not_wanted_in_the_present_state_is_not_evicted_and_its_time_begins_again(
    evicting: Evicting,
) -> None:
    states: list[snapshots.Snapshot] = []

    def until_b_is_gone(snapshot: snapshots.Snapshot) -> effects.Eviction | None:
        states.append(snapshot)
        b = snapshot.pod_named("ns", "b")
        return None if b is None else effects.Eviction("subject", (evicting.pod("a"),), "for b")

    evicting.want_renewed("a", until_b_is_gone, after=15)
    assert evicting.asked(after=14) == []
    assert states == []
    evicting.cluster.end_pod("b")
    evicting.observe()
    assert evicting.asked(after=1) == []
    assert states == [evicting.snapshot]
    assert evicting.asked(after=15) == []
    evicting.cluster.pod("b", node="n")
    evicting.observe()
    assert evicting.asked(after=15) == [], "no plugin has wanted it since"
    evicting.want_renewed("a", until_b_is_gone, after=15)
    assert evicting.asked(after=14) == []
    assert evicting.asked(after=1) == ["a"]


def test_the_pods_of_the_present_state_are_evicted(evicting: Evicting) -> None:
    other = effects.Eviction("subject", (evicting.pod("b"),), "for another reason")
    evicting.want_renewed("a", lambda snapshot: other, after=0)
    assert evicting.asked() == ["b"]
    assert [one.message for one in evicting.posted] == ["for another reason"]


def test_nothing_is_evicted_for_a_plugin_that_fails(evicting: Evicting) -> None:
    def fails(snapshot: snapshots.Snapshot) -> effects.Eviction | None:
        raise ValueError("a mistake")

    evicting.want_renewed("a", fails, after=0)
    evicting.want("b", plugin="Q")
    with structlog.testing.capture_logs() as logged:
        assert evicting.asked() == ["b"]
    assert [(one["plugin"], one["method"]) for one in logged if one["event"] == "a plugin failed"] == [
        ("P", "renewed")
    ]


def test_pods_of_two_plugins_do_not_wait_for_each_other(evicting: Evicting) -> None:
    evicting.want("a")
    evicting.want("b", plugin="Q")
    assert sorted(evicting.asked()) == ["a", "b"]


@pytest.mark.parametrize("state", ["gone", "terminating", "pending", "finished", "another pod"])
def test_only_a_running_pod_is_evicted(evicting: Evicting, state: str) -> None:
    cluster = evicting.cluster
    cluster.pod("waits")
    evicting.observe()
    evicting.want("waits" if state == "pending" else "a")
    match state:
        case "gone":
            cluster.end_pod("a")
        case "terminating":
            cluster.delete_pod("a")
        case "finished":
            cluster.phase("a", "Succeeded")
        case "another pod":
            cluster.end_pod("a")
            cluster.pod("a", node="n")
    evicting.observe()
    assert evicting.asked() == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_pod_that_is_gone_at_the_api_server_is_left(evicting: Evicting, replaced: bool) -> None:
    before = outcomes()["gone"]
    evicting.want("a b")
    evicting.cluster.end_pod("a")
    if replaced:
        evicting.cluster.pod("a", node="n")
    assert evicting.asked() == ["a"]
    assert outcomes()["gone"] == before + 1
    assert evicting.asked() == []
    assert evicting.posted == []


def test_a_plugin_may_object_unless_all_that_belong_together_go(cluster_side: clusters.Cluster) -> None:
    evicting = Evicting(cluster_side, Protects(together=frozenset(("a", "b"))))
    before = outcomes()["vetoed"]
    evicting.want("a", "c")
    assert evicting.asked() == []
    assert outcomes()["vetoed"] == before + 1
    assert evicting.asked() == ["c"]
    evicting.observe()
    evicting.want("a b")
    assert evicting.asked(after=evictions.EVERY) == ["a"]


@pytest.mark.scenario("TR-17")
def test_where_each_pod_helps_by_itself_only_those_stay_that_are_protected(
    cluster_side: clusters.Cluster,
) -> None:
    """Of ``c a b``, a and b belong together and may both go; c belongs to a pod that stays."""
    groups = frozenset(("a", "b")), frozenset(("c", "stays"))
    evicting = Evicting(cluster_side, *(Protects(name="".join(sorted(one)), together=one) for one in groups))
    before = outcomes()["vetoed"]
    evicting.want("c a b", together=False)
    assert evicting.asked() == ["a"]
    evicting.observe()
    evicting.want("c", together=False)
    assert evicting.asked(after=evictions.EVERY) == []
    assert outcomes()["vetoed"] == before + 1


def test_without_the_right_it_is_logged_and_tried_again_later(evicting: Evicting) -> None:
    evicting.cluster.server.faults.add(faults.FaultKind.FAIL, EVICT, times=1, status=403)
    evicting.want("a b")
    with structlog.testing.capture_logs() as logged:
        assert evicting.asked() == ["a"]
    (line,) = [one for one in logged if one["event"] == "cannot evict a pod"]
    assert line["pod"] == "ns/a"
    assert "403" in line["problem"]
    assert evicting.asked(after=evictions.RETRY - 1) == []
    assert evicting.asked(after=1) == ["a"]


def test_a_lost_reply_counts_as_an_eviction_until_the_state_shows_otherwise(evicting: Evicting) -> None:
    evicting.cluster.server.faults.add(faults.FaultKind.LOSE, EVICT, times=1)
    evicting.want("a", "b")
    assert evicting.asked() == ["a"]
    assert evicting.asked(after=evictions.SEEN - 1) == []
    evicting.observe()
    assert evicting.pod("a").terminating
    evicting.want("a", "b")
    assert evicting.asked() == ["b"]
