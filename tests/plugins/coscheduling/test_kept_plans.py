"""The plan of a group that preempts is kept while nothing changes that it depends on, and no longer."""

from dataclasses import dataclass

import msgspec
import pytest

from app.domain import model, verdicts
from app.domain.fit import budgets
from app.framework import cycles, pipeline, registry
from app.plugins.coscheduling import options
from app.plugins.coscheduling.planner import evictions
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs.namespace_quota import NamespaceQuota
from tests.support.decisions import call_counts, fake_plugins, group_evictions, scheduling_driver, small_gangs

NODES = ["n0", "n1"]
GROUP = group_evictions.GROUP


def low(number: int, app: str = "") -> model.Pod:
    """A pod that fills its node, and may go."""
    return small_gangs.pod(f"low-{number}", 8, node=f"n{number}", labels={"app": app} if app else {})


def member(number: int = 0) -> model.Pod:
    return small_gangs.pod(f"m{number}", 8, group="g", priority=GROUP)


def cluster(*things: scheduling_driver.Thing, members: int = 1) -> small_gangs.Cluster:
    """Two nodes and a group of kube-scheduler's own that waits."""
    nodes = [small_gangs.node(name, 8) for name in NODES]
    asked = [member(number) for number in range(members)]
    return small_gangs.Cluster(*nodes, small_gangs.native("g", members), *asked, *things)


def kept(small: small_gangs.Cluster, number: int = 0) -> set[str]:
    return set(small.filter(member(number), NODES, offered=True).kept)


def test_changes_of_other_pods_compute_nothing() -> None:
    strong = small_gangs.pod("strong", 0, node="n0", priority=GROUP)
    small = cluster(low(0), low(1), strong, members=2)
    with call_counts.counted(evictions.Evictions, "occupancies") as computed:
        found = kept(small)
        assert found
        small.see(small_gangs.pod("waits", 4))
        small.see(msgspec.structs.replace(strong, labels={"app": "db"}))
        small.see(msgspec.structs.replace(strong, terminating=True))
        assert (kept(small), kept(small, 1)) == (found, {*NODES} - found)
    assert computed.call_count == 1


def test_what_is_refused_is_not_computed_again_for_other_pods() -> None:
    small = cluster(low(0), low(1), members=3)
    with call_counts.counted(evictions.Evictions, "occupancies") as computed:
        assert not kept(small)
        small.see(small_gangs.pod("waits", 4))
        assert not kept(small, 2)
    assert computed.call_count == 1


def test_a_label_of_a_pod_that_may_go_changes_the_plan() -> None:
    limit = budgets.DisruptionBudget(
        uid="uid", namespace="x", name="limit", selector=model.Selector({"app": "db"})
    )
    small = cluster(low(0), low(1), limit)
    (first,) = kept(small)
    small.see(low(NODES.index(first), "db"))
    assert kept(small) == {*NODES} - {first}
    small.see(low(NODES.index(first)))
    small.see(low(1 - NODES.index(first), "db"))
    assert kept(small) == {first}


def test_a_pod_may_go_once_its_gang_is_no_longer_whole() -> None:
    """As its oldest member defines it, which is too important to go."""
    oldest, ours = (msgspec.structs.replace(one, phase="Running") for one in small_gangs.gang("w", 2, 8))
    oldest = msgspec.structs.replace(oldest, node="n1", priority=2 * GROUP)
    useless = small_gangs.pod("useless", 0, node="n1")
    small = cluster(oldest, msgspec.structs.replace(ours, node="n0"), useless)
    assert not kept(small)
    small.see(msgspec.structs.replace(oldest, annotations={**oldest.annotations, options.MINIMUM: "3"}))
    assert kept(small) == {"n0"}
    small.see(oldest)
    assert not kept(small)


def test_a_pod_that_is_nominated_meanwhile_holds_its_capacity() -> None:
    small = cluster(low(0), low(1))
    (first,) = kept(small)
    small.see(small_gangs.pod("nominated", 8, nominated=first, priority=2 * GROUP))
    assert kept(small) == {*NODES} - {first}


def quota(namespace: str, least: int) -> NamespaceQuota:
    """The quota of a namespace, which may use 10 cores."""
    amounts = {"cpu": least * small_gangs.CORE}, {"cpu": 10 * small_gangs.CORE}
    return NamespaceQuota(uid=namespace, namespace=namespace, name="q", min=amounts[0], max=amounts[1])


def test_a_nominated_pod_that_is_less_important_changes_what_other_plugins_answer() -> None:
    """What a namespace is guaranteed is not lent while a pod of it is nominated."""
    members = [msgspec.structs.replace(one, priority=10) for one in small_gangs.gang("g", 2)]
    low = small_gangs.pod("low", 3, namespace="y")
    quotas = quota("x", 0), quota("y", 4)
    node = small_gangs.node("n0", 10)
    small = small_gangs.Cluster(node, *quotas, *members, low, beside=(ElasticQuota(),))
    assert small.planned(members[0])
    small.see(msgspec.structs.replace(low, nominated="n0"))
    assert "no capacity in cpu within the mins of all quotas" in small.why(members[0])
    small.see(low)
    assert small.planned(members[0])


def test_other_plugin_settings_have_a_plan_of_their_own() -> None:
    """A question may ask what would be decided by them, in the same state."""
    members = small_gangs.gang("g", 2)
    small = small_gangs.Cluster(small_gangs.node("n0", 10), quota("x", 1), *members, beside=(ElasticQuota(),))
    assert "no capacity in cpu" in small.why(members[0])
    cycle = cycles.cycle(members[0], frozenset(("n0",)), small.snapshot)
    assert pipeline.run_filter(registry.Registry((Coscheduling(),)), cycle).kept == {"n0"}
    assert "no capacity in cpu" in small.why(members[0])


@dataclass(frozen=True, slots=True)
class Apart(fake_plugins.Idle):
    """Refuses nodes on which a pod of that label runs: no count has it."""

    name: str = "Apart"

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        on = cycle.snapshot.on
        found = frozenset(name for name in cycle.candidates if any("app" in one.labels for one in on(name)))
        return verdicts.Refusal("apart", found)


def test_a_label_that_another_plugin_reads_changes_the_plan() -> None:
    members = small_gangs.gang("g", 2)
    nodes = [small_gangs.node(name, 8) for name in NODES]
    beside = small_gangs.pod("beside", 1, node="n0"), small_gangs.pod("other", 1, node="n1")
    small = small_gangs.Cluster(*nodes, *members, *beside, beside=(Apart(),))
    first = small.planned(members[0])
    small.see(msgspec.structs.replace(beside[NODES.index(first)], labels={"app": "db"}))
    assert {small.planned(one) for one in members} == {*NODES} - {first}
    small.see(beside[NODES.index(first)])
    assert small.planned(members[0]) == first


@pytest.mark.parametrize("changed", [{"terminating": True}, {"annotations": {}}])
def test_pods_that_no_longer_attract_the_members_change_the_plan(changed: dict[str, object]) -> None:
    marked = {options.SELECTOR: "s"}
    members = [
        msgspec.structs.replace(one, annotations={**one.annotations, **marked})
        for one in small_gangs.gang("g", 2)
    ]
    nodes = [small_gangs.node(name, 4, {small_gangs.ZONE: name}) for name in NODES]
    near = [small_gangs.pod(name, 1, node="n0", annotations=marked) for name in ("a", "b")]
    far = small_gangs.pod("c", 1, node="n1", annotations=marked), small_gangs.pod("d", 1, node="n1")
    small = small_gangs.Cluster(*nodes, *members, *near, *far)
    assert small.planned(members[0]) == "n0"
    small.see(*(msgspec.structs.replace(one, **changed) for one in near))
    assert small.planned(members[0]) == "n1"


def test_pods_attract_the_members_by_their_annotation_whatever_label_has_its_key() -> None:
    marked = {options.SELECTOR: "s"}
    members = [
        msgspec.structs.replace(one, annotations={**one.annotations, **marked})
        for one in small_gangs.gang("g", 2)
    ]
    nodes = [small_gangs.node(name, 4, {small_gangs.ZONE: name}) for name in ("n0", "n1")]
    for name in ("n0", "n1"):
        near = small_gangs.pod("a", 1, node=name, annotations=marked, labels={options.SELECTOR: "other"})
        small = small_gangs.Cluster(*nodes, *members, near)
        assert small.planned(members[0]) == name
