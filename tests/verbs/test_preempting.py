"""preempt over a real store: no eviction in vain (scenarios of the rules: tests/scenarios)."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.domain import model, snapshots, verdicts
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.store.log import batches
from app.store.server import embedded
from app.verbs import candidates, contexts, decision_reports, filtering, preempting
from app.verbs.preemption import offers
from tests.support.extender import replicas, small_shops
from tests.support.monitoring import samples
from tests.support.store import crash_safe_server, materialised


def placed(shop: replicas.Cluster, name: str, node: str, labels: dict[str, str] | None = None) -> model.Pod:
    pod = shop.pod(name, labels)
    shop.put(pod, node)
    return pod


def kept(replica: replicas.Replica, pod: model.Pod, offer: offers.Offer) -> tuple[set[str], set[str]]:
    answer = preempting.run(replica.context, pod, offer)
    assert {*answer.kept, *answer.dropped} == set(offer)
    assert len(answer.kept) + len(answer.dropped) == len(offer)
    return set(answer.kept), set(answer.dropped)


@pytest.mark.scenario("PR-2", "PR-24")
def test_a_pod_without_rules_keeps_the_offer(shop: replicas.Cluster) -> None:
    one, vip = shop.replica(), shop.pod("vip", {}, priority=100)
    victim, other = placed(shop, "web-1", "h1"), placed(shop, "other", "m1", {"app": "other"})
    shop.see()
    assert kept(one, vip, {"h1": [victim.uid], "m1": [other.uid]}) == ({"h1", "m1"}, set())
    # Each of these would fail the whole preemption, or the scheduler itself (extender contract, 10, 11).
    assert kept(one, vip, {"h1": [], "m1": [victim.uid]}) == (set(), {"h1", "m1"})


@pytest.mark.scenario("PR-5", "PR-24")
def test_nodes_where_it_would_be_for_nothing_are_dropped(shop: replicas.Cluster) -> None:
    one, vip = shop.replica(), shop.pod("vip", priority=100)
    member, unrelated = placed(shop, "web-1", "h1"), placed(shop, "other", "h2", {"app": "other"})
    shop.see()
    offer = {"h1": [member.uid], "h2": [unrelated.uid], "ghost": [unrelated.uid], "m1": ["unknown"]}
    assert kept(one, vip, offer) == ({"h1"}, {"h2", "ghost", "m1"})
    assert kept(one, vip, {"h2": [unrelated.uid]}) == (set(), {"h2"})


def test_a_victim_whose_placement_is_not_observed_yet_counts(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    victim, vip = shop.pod("web-1"), shop.pod("vip", priority=100)
    shop.see()
    assert one.bind(victim, "h1") == ""
    assert kept(other, vip, {"h1": [victim.uid], "h2": ["another"]}) == ({"h1"}, {"h2"})


def filtered(replica: replicas.Replica, pod: model.Pod, *nodes: str) -> verdicts.Trace:
    """The trace of a call of filter, which is reported as one of kube-scheduler."""
    replica.snapshot()
    offered = candidates.Candidates(nodes)
    answer = filtering.run(replica.context, pod, offered)
    decision_reports.report(replica.context, "filter", decision_reports.filtered(answer, offered), 0.0)
    return answer.trace


@pytest.mark.scenario("PR-47")
def test_a_refusal_that_is_outdated_evicts_no_pods(shop: replicas.Cluster) -> None:
    one = shop.replica()
    ended, unrelated = placed(shop, "web-1", "h1"), placed(shop, "other", "h2", {"app": "other"})
    vip, offer = shop.pod("vip", priority=100), {"h2": [unrelated.uid]}
    shop.see()
    assert not filtered(one, vip, "h1").kept
    shop.delete(ended)
    shop.see()
    # kube-scheduler sends the pod as it is now.
    nominated = msgspec.structs.replace(vip, nominated="h1")
    answer = preempting.run(one.context, nominated, offer)
    assert (dict(answer.kept), dict(answer.dropped)) == ({}, {"h2": preempting.OUTDATED})
    # A refusal counts once: kube-scheduler's own filters may pass other nodes by now.
    assert kept(one, nominated, offer) == ({"h2"}, set())


def test_only_a_refusal_of_the_same_attempt_is_compared(shop: replicas.Cluster) -> None:
    one = shop.replica()
    ended, unrelated = placed(shop, "web-1", "h1"), placed(shop, "other", "h2", {"app": "other"})
    vip, counted, useful = shop.pod("vip", priority=100), {"h1": [ended.uid]}, {"h2": [unrelated.uid]}
    shop.see()
    assert not filtered(one, vip, "h1").kept
    shop.node("h9", role="host")
    shop.see()
    assert kept(one, vip, counted) == ({"h1"}, set()), "the refusal still holds"
    assert not filtered(one, vip, "h1").kept
    shop.delete(ended)
    shop.see()
    one.clock.ahead += preempting.ATTEMPT + 1
    assert kept(one, vip, useful) == ({"h2"}, set()), "the refusal is of an attempt before"
    assert filtered(one, vip, "h1").kept
    shop.node("h8", role="host")
    shop.see()
    assert kept(one, vip, useful) == ({"h2"}, set()), "filter did not refuse it"


@pytest.mark.scenario("PR-46")
def test_what_was_freed_may_be_taken_until_the_nomination_is_recorded(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    victim = placed(shop, "web-0", "h1")
    vip, late = shop.pod("vip", priority=100), shop.pod("late", priority=1)
    shop.see()
    assert kept(one, vip, {"h1": [victim.uid]}) == ({"h1"}, set())
    shop.delete(victim)
    shop.see()
    assert other.bind(late, "h2") == ""
    nominated = msgspec.structs.replace(vip, nominated="h1")
    before = samples.value("topolog_preemptions_lost_total")
    reasons = filtered(one, nominated, "h1").reasons()
    assert list(reasons) == ["h1"]
    assert reasons["h1"].startswith("workload policy shop/spread: no capacity")
    assert samples.value("topolog_preemptions_lost_total") == before + 1
    # Asked about all nodes, as kube-scheduler does next, it is refused like any other pod.
    assert not filtered(one, nominated, "h1", "h2").kept
    assert not filtered(one, vip, "h1").kept
    assert samples.value("topolog_preemptions_lost_total") == before + 1


@pytest.mark.scenario("PR-46")
def test_once_the_nomination_is_recorded_no_less_important_pod_takes_its_place(
    shop: replicas.Cluster,
) -> None:
    one, other = shop.replica(), shop.replica()
    victim = placed(shop, "web-0", "h1")
    vip, late = shop.pod("vip", priority=100), shop.pod("late", priority=1)
    shop.delete(victim)
    shop.nominate(vip, "h1")
    shop.see()
    assert not filtered(other, late, "h1", "h2").kept
    assert other.bind(late, "h2") != ""
    assert filtered(one, vip, "h1").kept == {"h1"}
    assert one.bind(vip, "h1") == ""


def test_the_log_is_as_before(shop: replicas.Cluster) -> None:
    one, vip = shop.replica(), shop.pod("vip", priority=100)
    victim = placed(shop, "web-1", "h1")
    head = shop.see()
    counts = materialised.counts(one.store)
    preempting.run(one.context, vip, {"h1": [victim.uid], "m1": [victim.uid]})
    assert (one.snapshot().offset, materialised.counts(one.store)) == (head, counts)


class Counting:
    """The state of a replica, and how often it was read from the store."""

    def __init__(self, state: contexts.State) -> None:
        self.state = state
        self.reads = 0

    @property
    def snapshot(self) -> snapshots.Snapshot:
        return self.state.snapshot

    @property
    def caught_up(self) -> bool:
        return self.state.caught_up

    @property
    def lag_seconds(self) -> float:
        return self.state.lag_seconds

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        self.reads += 1
        return self.state.catch_up(timeout=timeout)

    def apply_own_append(self, ahead: snapshots.Snapshot, appended: batches.Appended | None = None) -> None:
        self.state.apply_own_append(ahead, appended)


@pytest.mark.scenario("PR-41")
def test_many_nodes_are_answered_from_one_read_of_the_store(shop: replicas.Cluster) -> None:
    one, vip = shop.replica(), shop.pod("vip", priority=100)
    names = [f"many-{number}" for number in range(100)]
    offer = {}
    for name in names:
        shop.node(name, role="host")
        offer[name] = [placed(shop, f"{name}-{at}", name, {"app": "other"}).uid for at in range(5)]
        shop.see()
    counting = Counting(one.context.state)
    answer = preempting.run(dataclasses.replace(one.context, state=counting), vip, offer)
    assert ([*answer.kept], counting.reads) == (names, 1)
    assert all(list(answer.kept[name].uids) == offer[name] for name in names)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[embedded.Server]:
    made = crash_safe_server.CrashSafeServer(tmp_path, append_only=True)
    yield made
    made.stop()


def test_without_state_a_pod_under_hard_rules_evicts_no_pods(server: embedded.Server, cluster: str) -> None:
    with replicas.cluster(server.url, cluster) as shop:
        shop.node("h1", role="host")
        shop.policy({"host": 1})
        one = shop.replica(state=1.0)
        victim, vip = placed(shop, "web-1", "h1"), shop.pod("vip", priority=100)
        unrelated = shop.pod("unrelated", {"rl-job-group": "g"}, priority=100)
        shop.see()
        one.snapshot()
        server.kill()
        assert kept(one, vip, {"h1": [victim.uid]}) == (set(), {"h1"})
        assert kept(one, unrelated, {"h1": [victim.uid]}) == ({"h1"}, set())
        server.start()
        assert kept(one, vip, {"h1": [victim.uid]}) == ({"h1"}, set())


def test_without_state_only_pods_that_a_plugin_may_protect_are_not_evicted(
    server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(server.url, cluster) as shop:
        shop.node("h1", role="host")
        shop.node("h2", role="host")
        one = shop.replica(state=1.0, beside=(Coscheduling,))
        member = placed(shop, "member", "h1", {"pod-group.scheduling.sigs.k8s.io": "gang"})
        single, vip = placed(shop, "single", "h2", {}), shop.pod("vip", {}, priority=100)
        shop.see()
        one.snapshot()
        server.kill()
        offer = {"h1": [member.uid], "h2": [single.uid]}
        assert kept(one, vip, offer) == ({"h2"}, {"h1"})
        assert kept(one, vip, {"h1": ["unknown"]}) == (set(), {"h1"})


def test_without_state_pods_that_a_quota_limits_count_as_protected(
    server: embedded.Server, cluster: str
) -> None:
    """Whatever the quota's rules are; with the state they are evicted."""
    with replicas.cluster(server.url, cluster) as shop:
        shop.node("h1", role="host")
        shop.node("h2", role="host")
        small_shops.quota(shop, "team", 4)
        one = shop.replica(state=1.0, beside=(ElasticQuota,))
        limited = placed(shop, "limited", "h1", {"quota.scheduling.koordinator.sh/name": "team"})
        single, vip = placed(shop, "single", "h2", {}), shop.pod("vip", {}, priority=100)
        shop.see()
        one.snapshot()
        offer = {"h1": [limited.uid], "h2": [single.uid]}
        assert kept(one, vip, offer) == ({"h1", "h2"}, set())
        server.kill()
        assert kept(one, vip, offer) == ({"h2"}, {"h1"})
