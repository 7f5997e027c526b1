"""Scenarios of ElasticQuota: which pods are admitted, and where they count. Amounts are cores and GiB."""

import msgspec
import pytest

from app.domain import events, model
from app.framework import cycles
from app.plugins.elastic_quota import kinds, quota_counts, quota_model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.summaries import quotas
from app.plugins.elastic_quota.trees import membership, overuse, runtimes, usage
from app.verbs.preemption import offers
from tests.support.decisions import scheduling_driver
from tests.support.decisions.small_quotas import CORE, GIB, check, cluster, node, pod, quota, runtime


def used(small: scheduling_driver.Cluster, name: str, resource: str = "cpu", part: str = "") -> int:
    """A count as it is stored."""
    return quota_counts.count(small.snapshot, usage.forest(small.snapshot), name, resource, part)


@pytest.mark.scenario("EQ-11")
def test_the_total_is_what_the_nodes_have_and_the_default_quota_leaves() -> None:
    nodes: list[scheduling_driver.Thing] = [node("n1", 80), node("n2", 20)]
    asking: list[scheduling_driver.Thing] = [pod("a", 100, "a"), pod("b", 100, "b")]
    small = cluster(*nodes, quota("a", 50, 100), quota("b", 30, 100), *asking)
    small.see(pod("other", 12, node="n1"))
    assert (runtime(small, "a"), runtime(small, "b")) == (54, 34)
    small.see(node("n2", 20, unschedulable=True))
    assert (runtime(small, "a"), runtime(small, "b")) == (54, 34)


@pytest.mark.scenario("EQ-11")
def test_mins_are_scaled_when_a_node_is_gone() -> None:
    asking: list[scheduling_driver.Thing] = [
        pod("a", 100, "a"),
        pod("b", 100, "b"),
        pod("other", 12, node="n1"),
    ]
    nodes: list[scheduling_driver.Thing] = [node("n1", 80), node("n2", 20)]
    small = cluster(*nodes, quota("a", 50, 100), quota("b", 30, 100), *asking)
    assert (runtime(small, "a"), runtime(small, "b")) == (54, 34)
    small.take(events.NodeGone(name="n2", uid="uid-n2"))

    def shares(**scaling: bool) -> dict[str, tuple[float, float]]:
        """Quota -> its scaled min, and its runtime."""
        found = usage.of_tree(small.snapshot, "", runtimes.RuntimeRules(**scaling)).runtimes
        places = {name: found.division(name, "cpu") or (None, 0) for name in "ab"}
        scaled = {name: division.shares.scaled[at] for name, (division, at) in places.items() if division}
        return {name: (scaled[name] / CORE, found.runtime(name)["cpu"] / CORE) for name in "ab"}

    # In whole cores the scaled mins are 42 and 25, and a gets the rest; cpu is divided in thousandths.
    assert shares() == {"a": (42.5, 42.5), "b": (25.5, 25.5)}
    assert shares(scale=False) == {"a": (50, 50), "b": (30, 30)}


@pytest.mark.scenario("EQ-12")
def test_only_requested_resources_are_tested() -> None:
    q = quota("q", 0, 10, max={"cpu": 10 * CORE, "memory": 4 * GIB})
    things: list[scheduling_driver.Thing] = [
        node("n1", 100, 100),
        q,
        pod("runs", 8, "q", node="n1", memory=5),
    ]
    small = cluster(*things)
    assert not small.filter(pod("fits", 2, "q")).refused
    assert small.why(pod("large", 3, "q")) == "elastic quota q: no capacity in cpu"
    assert small.why(pod("both", 3, "q", memory=1)) == "elastic quota q: no capacity in cpu, memory"
    strict = cluster(*things, strict_resources=True)
    assert strict.why(pod("fits", 2, "q")) == "elastic quota q: no capacity in memory"


def belongs(small: scheduling_driver.Cluster, one: model.Pod) -> str:
    return membership.of(one, usage.forest(small.snapshot)).name


@pytest.mark.scenario("EQ-13")
def test_the_quota_of_a_pod() -> None:
    own = quota("team-a", 1, 10, namespace="team-a")
    other = quota("x", 1, 10, namespace="other", namespaces=("team-a", "team-b"))
    small = cluster(node("n1", 100), own, other)
    unnamed = pod("p", namespace="team-a")
    assert belongs(small, unnamed) == "team-a"
    assert belongs(small, pod("p", quota="x", namespace="team-a")) == "x"
    assert belongs(small, pod("p", namespace="team-b")) == "x"
    unknown = membership.of(pod("p", quota="absent"), usage.forest(small.snapshot))
    assert unknown.name == "koordinator-default-quota"
    assert unknown.warning == "quota absent does not exist; the default quota applies"
    gone(small, own)
    assert belongs(small, unnamed) == "x"
    gone(small, other)
    assert belongs(small, unnamed) == "koordinator-default-quota"
    assert small.plugins.concerned(unnamed, small.snapshot) == ()


@pytest.mark.scenario("EQ-13")
def test_the_default_quota_limits_only_if_it_is_an_object_and_enabled() -> None:
    default = quota("koordinator-default-quota", 0, 2)
    things: list[scheduling_driver.Thing] = [node("n1", 100), default, pod("runs", 2, node="n1")]
    assert cluster(*things).why(pod("next")) == "elastic quota koordinator-default-quota: no capacity in cpu"
    free = cluster(*things, default_quota=False)
    assert not free.filter(pod("next")).refused
    assert free.plugins.concerned(pod("next"), free.snapshot) == ()


@pytest.mark.scenario("EQ-13")
def test_of_the_built_in_quotas_the_default_one_that_limits_its_pods_may_be_above_its_max() -> None:
    small = cluster(
        node("n1", 100),
        quota(quota_model.DEFAULT, 0, 4),
        quota(quota_model.SYSTEM, 0, 4),
        pod("loose", 6, node="n1"),
        pod("system", 6, quota=quota_model.SYSTEM, node="n1"),
    )
    found = overuse.over(small.snapshot, quota_model.DEFAULT, ElasticQuota())
    assert found == {"cpu": 2 * CORE}
    shown = quotas.one(ElasticQuota(), small.snapshot, {"name": quota_model.DEFAULT})
    assert shown is not None
    assert shown["over"] == {"cpu": "2"}
    assert not overuse.over(small.snapshot, quota_model.DEFAULT, ElasticQuota(default_quota=False))
    assert not overuse.over(small.snapshot, quota_model.SYSTEM, ElasticQuota())


@pytest.mark.scenario("EQ-13")
@pytest.mark.parametrize("name", sorted(quota_model.BUILT_IN - {quota_model.ROOT}))
def test_a_built_in_quota_that_is_invalid_refuses_its_pods_unless_it_is_ignored(name: str) -> None:
    invalid = quota(name, 0, 2, errors=("max has no cpu",))
    asks = pod("p", 9, quota=name)
    reason = f"elastic quota {name}: invalid: max has no cpu"
    assert cluster(node("n1", 100), invalid).why(asks) == reason
    ignoring = cluster(node("n1", 100), invalid, invalid_quota="ignore")
    assert not ignoring.filter(asks).refused
    assert ignoring.plugins.concerned(asks, ignoring.snapshot) == ()


@pytest.mark.scenario("EQ-11")
@pytest.mark.parametrize("name", sorted(quota_model.BUILT_IN - {quota_model.ROOT}))
def test_pods_of_a_built_in_quota_that_is_invalid_reduce_the_total_once(name: str) -> None:
    small = cluster(node("n1", 100), quota(name, errors=("max has no cpu",)), quota("a", 0, 100))
    small.see(pod("runs", 20, name, node="n1"))
    small.see(pod("asks", 100, "a"))
    assert runtime(small, "a") == 80


@pytest.mark.scenario("EQ-11", "EQ-16")
@pytest.mark.parametrize("name", sorted(quota_model.BUILT_IN - {quota_model.ROOT}))
def test_pods_of_a_built_in_quota_count_in_no_quota_that_it_names_as_its_parent(name: str) -> None:
    """They reduce what is divided. A pod that was not observed yet is judged without a runtime of theirs."""
    built_in = quota(name, 0, 50, parent="team")
    things: list[scheduling_driver.Thing] = [node("n1", 100), built_in, quota("team", 0, 100, is_parent=True)]
    small = cluster(*things, pod("runs", 40, name, node="n1"), pod("asks", 60, "team"), check_parents=True)
    check(small)
    assert (used(small, name), used(small, "team")) == (40 * CORE, 0)
    assert runtime(small, "team") == 60
    assert not small.filter(pod("asks", 60, "team")).refused
    assert not small.filter(pod("new", 10, name)).refused
    assert small.why(pod("new", 11, name)) == f"elastic quota {name}: no capacity in cpu"


def gone(small: scheduling_driver.Cluster, one: object) -> None:
    assert isinstance(one, model.DeclaredObject)
    small.take(kinds.QUOTAS.gone(one.namespace, one.name, one.uid))


@pytest.mark.scenario("EQ-14")
def test_non_preemptible_pods_get_no_more_than_min() -> None:
    firm = [pod(f"firm-{n}", 2, "q", node="n1", firm=True) for n in range(2)]
    small = cluster(node("n1", 100), quota("q", 4, 10), *firm)
    assert small.why(pod("third", 1, "q", firm=True)) == (
        "elastic quota q: no capacity for non-preemptible pods in cpu"
    )
    assert not small.filter(pod("soft", 1, "q")).refused
    assert used(small, "q", part=quota_counts.FIRM) == 4 * CORE


@pytest.mark.scenario("EQ-16")
def test_parents_limit_only_if_they_are_checked() -> None:
    things: list[scheduling_driver.Thing] = [
        node("n1", 100),
        quota("parent", 0, 8, is_parent=True),
        quota("one", 0, 6, parent="parent"),
        quota("two", 0, 6, parent="parent"),
        pod("a", 2, "one", node="n1"),
        pod("b", 5, "two", node="n1"),
    ]
    # max is the limit here: by runtimes, the children would divide what the parent has.
    checking = cluster(*things, runtime=False, check_parents=True)
    assert checking.why(pod("next", 2, "one")) == "elastic quota one: no capacity in cpu of parent parent"
    assert not cluster(*things, runtime=False).filter(pod("next", 2, "one")).refused
    cycle = checking._cycle(pod("next", 1, "two"), ["n1"])
    claim = ElasticQuota(runtime=False, check_parents=True).reserve(cycle, "n1")
    assert claim.ceilings == {"quota||two|cpu": 6 * CORE, "quota||parent|cpu": 8 * CORE}


@pytest.mark.scenario("EQ-17")
def test_pods_of_a_deleted_quota_count_in_the_default_one() -> None:
    q, rest = quota("q", 4, 10), quota("rest", 1, 10)
    runs = [pod(f"r{n}", 2, "q", node="n1") for n in range(3)]
    small = cluster(node("n1", 100), q, rest, *runs, pod("waits", 1, "q"))
    assert used(small, "q") == 6 * CORE
    gone(small, q)
    assert (used(small, "q"), used(small, "koordinator-default-quota")) == (0, 6 * CORE)
    assert used(small, "koordinator-default-quota", part=quota_counts.PENDING) == 1 * CORE
    check(small)
    small.see(q)
    assert (used(small, "q"), used(small, "koordinator-default-quota")) == (6 * CORE, 0)
    check(small)
    gone(small, rest)
    gone(small, q)
    assert dict(small.snapshot.counts) == {}


@pytest.mark.scenario("EQ-18")
def test_the_reason_does_not_change_with_what_the_quota_uses() -> None:
    small = cluster(node("n1", 1000), quota("q", 0, 100))
    asking, reasons = pod("large", 101, "q"), set()
    for n in range(100):
        small.place(pod(f"p{n}", 1, "q"), "n1")
        reasons.add(small.why(asking))
    assert reasons == {"elastic quota q: no capacity in cpu"}


def going(small: scheduling_driver.Cluster) -> list[str]:
    excess = overuse.over(small.snapshot, "q", ElasticQuota())
    return [one.pod.name for one in overuse.excess_pods(excess, overuse.members(small.snapshot, "q"))]


def overused(*firm: str) -> scheduling_driver.Cluster:
    rows = [("p1", 9, 4, 1), ("p2", 8, 3, 2), ("p3", 5, 6, 3), ("p4", 5, 5, 4)]
    pods = [
        pod(
            name,
            cores,
            "q",
            node="n1",
            firm=name in firm,
            priority=priority,
            started=f"2026-01-0{day}T00:00:00Z",
        )
        for name, priority, cores, day in rows
    ]
    return cluster(node("n1", 100), quota("q", 0, 10), *pods)


@pytest.mark.scenario("EQ-19")
def test_the_pods_of_an_overused_quota_that_would_have_to_go() -> None:
    assert going(overused()) == ["p3", "p4"]
    assert going(overused("p3")) == ["p2", "p4"]
    assert going(overused("p1", "p2", "p3", "p4")) == []
    assert going(cluster(node("n1", 100), quota("q", 0, 10), pod("p", 10, "q", node="n1"))) == []


@pytest.mark.scenario("EQ-19")
def test_a_pod_that_frees_nothing_of_the_excess_stays() -> None:
    limits = msgspec.structs.replace(quota("q", 0, 10), max={"cpu": 10 * CORE, "memory": 4 * GIB})
    firm = pod("firm", 12, "q", node="n1", firm=True)
    stores = pod("stores", 0, "q", node="n1", memory=2)
    small = cluster(node("n1", 100, 100), limits, firm, stores)
    assert going(small) == []
    # The cores of the firm pod stay in excess; of the memory as much is freed as is too much.
    small.see(pod("computes", 1, "q", node="n1", priority=1))
    assert going(small) == ["computes"]
    small.see(pod("more", 0, "q", node="n1", memory=1, priority=2))
    assert going(small) == ["computes"]
    small.see(pod("caches", 0, "q", node="n1", memory=3, priority=3))
    assert going(small) == ["computes", "stores"]


@pytest.mark.scenario("EQ-19")
def test_pods_stay_while_those_of_children_hold_all_of_the_excess() -> None:
    limits = quota("q", 0, 10, is_parent=True, max={"cpu": 10 * CORE, "memory": 4 * GIB})
    child = quota("child", 0, 20, parent="q")
    small = cluster(
        node("n1", 100, 100),
        limits,
        child,
        pod("below", 12, "child", node="n1"),
        pod("own", 0, "q", node="n1", memory=1),
    )
    assert going(small) == []


@pytest.mark.parametrize("named", [True, False])
def test_a_request_that_is_counted_in_part_is_refused(named: bool) -> None:
    most = {"cpu": 10 * CORE, **({"memory": 5 * 1024 * GIB} if named else {})}
    small = cluster(node("n1", 100), msgspec.structs.replace(quota("q", 0, 10), max=most), runtime=False)
    assert not small.filter(pod("p", 1, "q", memory=4 * 1024)).refused
    large = pod("p", 1, "q", memory=8 * 1024)
    if named:
        assert small.why(large) == "elastic quota q: requests of more than 4Ti of memory cannot be counted"
        assert small.filter(pod("p", 1, "q", memory=4 * 1024 + 1)).refused
    else:
        assert not small.filter(large).refused


@pytest.mark.scenario("EQ-21")
def test_a_cycle_of_parents_refuses_pods_until_it_is_broken() -> None:
    a, b = quota("a", parent="b", is_parent=True), quota("b", parent="a", is_parent=True)
    small = cluster(node("n1", 100), a, b, pod("runs", 1, "a", node="n1"))
    assert small.why(pod("next", 1, "a")) == (
        "elastic quota a: invalid: its parents form a cycle: a -> b -> a"
    )
    ignoring = cluster(node("n1", 100), a, b, invalid_quota="ignore")
    assert not ignoring.filter(pod("next", 1, "a")).refused
    small.see(msgspec.structs.replace(b, parent=""))
    assert not small.filter(pod("next", 1, "a")).refused
    check(small)


@pytest.mark.scenario("EQ-21")
def test_what_pods_of_a_cycle_use_is_not_lent_to_others() -> None:
    small = cluster(
        node("n1", 10),
        quota("a", parent="b", is_parent=True),
        quota("b", parent="a", is_parent=True),
        quota("below", parent="a"),
        quota("other", 0, 10),
        pod("a1", 2, "a", node="n1"),
        pod("b1", 1, "b", node="n1"),
        pod("below1", 3, "below", node="n1"),
    )
    assert not small.filter(pod("fits", 4, "other")).refused
    assert small.why(pod("large", 5, "other")) == "elastic quota other: no capacity in cpu"


@pytest.mark.scenario("EQ-23")
def test_only_a_victim_of_the_same_quota_helps() -> None:
    things: list[scheduling_driver.Thing] = [
        node("n1", 100),
        node("n2", 100),
        quota("q", 0, 10),
        quota("r", 0, 100),
        other := pod("other", 4, "r", node="n1"),
        victim := pod("victim", 4, "q", node="n2"),
        pod("stays", 6, "q", node="n1"),
    ]
    small = cluster(*things, runtime=False)
    asking = pod("asks", 4, "q", priority=9)
    assert small.filter(asking).refused == {"n1", "n2"}
    small.gone(other)
    assert small.filter(asking).refused == {"n1", "n2"}
    small.gone(victim)
    assert not small.filter(asking).refused


@pytest.mark.scenario("EQ-23")
@pytest.mark.scenario("PR-38")
def test_preempt_keeps_the_nodes_whose_victims_are_of_the_quota() -> None:
    """A pod of an overdrawn quota evicts no pod of another one, because it would be refused afterwards."""
    victims = {
        "n1": [pod("other", 4, "r", node="n1")],
        "n2": [pod("own", 4, "q", node="n2")],
        "n3": [pod("small", 2, "q", node="n3"), pod("beside", 4, "r", node="n3")],
    }
    small = cluster(
        *(node(name, 100) for name in victims),
        quota("q", 0, 10),
        quota("r", 0, 100),
        *(one for listed in victims.values() for one in listed),
        pod("stays", 4, "q", node="n1"),
        runtime=False,
    )
    asking = pod("asks", 4, "q", priority=9)
    offer = {name: [one.uid for one in listed] for name, listed in victims.items()}
    base = cycles.cycle(asking, frozenset(offer), small.snapshot)
    answer = offers.judge(small.plugins, base, offer)
    assert {name: kept.uids for name, kept in answer.kept.items()} == {"n2": (victims["n2"][0].uid,)}
    assert set(answer.dropped.values()) == {"elastic quota q: no capacity in cpu"}
    without_own = {name: offer[name] for name in ("n1", "n3")}
    base = cycles.cycle(asking, frozenset(without_own), small.snapshot)
    assert not offers.judge(small.plugins, base, without_own).kept


@pytest.mark.scenario("EQ-24")
@pytest.mark.parametrize(("ignoring", "left"), [(False, 60), (True, 100)])
def test_a_tree_has_a_total_of_its_own(ignoring: bool, left: int) -> None:
    root = quota(
        "t-root",
        0,
        1000,
        is_parent=True,
        tree="t",
        is_root=True,
        ignores_default_tree=ignoring,
        total={"cpu": 40 * CORE},
    )
    team, other = quota("team", 0, 1000, parent="t-root", tree="t"), quota("other", 0, 1000)
    small = cluster(node("n1", 100), root, team, other, pod("a", 500, "team"), pod("b", 500, "other"))
    assert (runtime(small, "team"), runtime(small, "other")) == (40, left)
