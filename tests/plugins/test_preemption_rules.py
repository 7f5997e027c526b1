"""Pods that depend on a victim are evicted with it, or the node is dropped."""

from typing import Any

import msgspec
import pytest

from app.domain import events, model, projections, snapshots
from app.domain.fit import budgets
from app.framework import cycles, registry, views
from app.plugins.preemption_rules import plugin
from app.verbs.preemption import offers
from tests.support.decisions import crowded_nodes, fake_plugins

PLUGINS = registry.Registry([plugin.PreemptionRules()])
HERE = crowded_nodes.node("n1", labels={"zone": "a"})
NEAR = crowded_nodes.node("n2", labels={"zone": "a"})
DATABASE = crowded_nodes.pod("database", 10, node="n1", start=2, labels={"app": "db"})


def server(priority: int = 20, near: str = "kubernetes.io/hostname") -> model.Pod:
    return crowded_nodes.pod(
        "server", priority, node="n1", start=1, labels={"app": "server"}, needs={"app": "db"}, near=near
    )


def judged(snapshot: snapshots.Snapshot, *uids: str, plugins: registry.Registry = PLUGINS) -> object:
    """The victims of n1 that remain, or why it is dropped."""
    asking = crowded_nodes.pod("p", 50)
    base = cycles.cycle(asking, frozenset(("n1",)), snapshot)
    answer = offers.judge(plugins, base, {"n1": uids})
    assert len(answer.kept) + len(answer.dropped) == 1
    return list(answer.kept["n1"].uids) if answer.kept else answer.dropped["n1"]


@pytest.mark.scenario("PR-15", "PR-16", "PR-33")
def test_a_dependent_is_evicted_with_what_it_needs() -> None:
    assert judged(crowded_nodes.world(HERE, DATABASE, server()), "database") == ["server", "database"]


@pytest.mark.scenario("PR-33")
def test_only_the_node_is_dropped_where_a_dependent_is_still_being_bound() -> None:
    waiting = msgspec.structs.replace(server(), node="", phase="Pending")
    other = crowded_nodes.pod("other", 10, node="n2")
    world = crowded_nodes.world(HERE, NEAR, DATABASE, other, waiting)
    world = projections.project(world, events.placed(waiting, "n1"))
    base = cycles.cycle(crowded_nodes.pod("p", 50), frozenset(("n1", "n2")), world)
    answer = offers.judge(PLUGINS, base, {"n1": ["database"], "n2": ["other"]})
    assert answer.kept == {"n2": offers.Kept(("other",))}
    assert answer.dropped == {"n1": "a pod that would have to go is still being bound"}


@pytest.mark.scenario("PR-16")
def test_what_a_victim_needs_stays() -> None:
    assert judged(crowded_nodes.world(HERE, DATABASE, server()), "server") == ["server"]


@pytest.mark.scenario("PR-15", "PR-33")
def test_the_node_is_dropped_if_a_dependent_is_too_important() -> None:
    for priority in (50, 60):
        snapshot = crowded_nodes.world(HERE, DATABASE, server(priority))
        assert judged(snapshot, "database") == "eviction would strand ns/server"


@pytest.mark.scenario("PR-33")
def test_a_dependent_that_is_terminating_neither_goes_nor_keeps_the_node() -> None:
    for priority in (20, 60):
        ending = msgspec.structs.replace(server(priority), terminating=True)
        assert judged(crowded_nodes.world(HERE, DATABASE, ending), "database") == ["database"]


@pytest.mark.scenario("PR-33")
def test_another_pod_in_the_topology_domain_is_enough() -> None:
    other = crowded_nodes.pod("other", 10, node="n2", labels={"app": "db"})
    snapshot = crowded_nodes.world(HERE, NEAR, DATABASE, server(near="zone"), other)
    assert judged(snapshot, "database") == ["database"]
    # On the same node, the other zone mate is of no use.
    snapshot = crowded_nodes.world(HERE, NEAR, DATABASE, server(), other)
    assert judged(snapshot, "database") == ["server", "database"]
    finished = crowded_nodes.pod("other", 10, node="n2", labels={"app": "db"}, phase="Failed")
    snapshot = crowded_nodes.world(HERE, NEAR, DATABASE, server(near="zone"), finished)
    assert judged(snapshot, "database") == ["server", "database"]


TIER = model.Selector({"app": "db", "tier": "a"})
LISTED = model.Selector({}, (model.Requirement("app", "In", ("cache", "db")),))
LABELLED = model.Selector({}, (model.Requirement("app", "Exists"),))


@pytest.mark.scenario("PR-33")
@pytest.mark.parametrize("selector", [TIER, LISTED, LABELLED, model.Selector()])
@pytest.mark.parametrize("spaces", [{}, {"namespaces": ("ns", "other")}, {"any_namespace": True}])
@pytest.mark.parametrize("near", ["zone", "region"])
def test_a_dependent_stays_beside_another_pod_that_its_term_selects(
    selector: model.Selector, spaces: dict[str, Any], near: str
) -> None:
    """The nodes have no region: there, only the pods of the node count."""
    term = model.PodTerm(near, selector, **spaces)
    pods = [
        crowded_nodes.pod("database", 10, node="n1", start=2, labels={"app": "db", "tier": "a"}),
        crowded_nodes.pod("server", 20, node="n1", start=1),
        crowded_nodes.pod("other", 10, node="n2", labels={"app": "db", "tier": "a"}),
    ]
    pods[1] = msgspec.structs.replace(pods[1], constraints=model.Constraints(pod_affinity=(term,)))
    itself = selector == model.Selector()  # A pod that its own term selects stays.
    beside = ["database"] if near == "zone" or itself else ["server", "database"]
    assert judged(crowded_nodes.world(HERE, NEAR, *pods), "database") == beside
    alone = ["database"] if itself else ["server", "database"]
    assert judged(crowded_nodes.world(HERE, NEAR, *pods[:2]), "database") == alone
    pods[2] = msgspec.structs.replace(pods[2], namespace="third")
    beside = beside if "any_namespace" in spaces else alone
    assert judged(crowded_nodes.world(HERE, NEAR, *pods), "database") == beside


@pytest.mark.scenario("PR-33")
def test_a_dependent_needs_every_label_of_its_term() -> None:
    other = crowded_nodes.pod("other", 10, node="n2", labels={"app": "db", "tier": "b"})
    database = crowded_nodes.pod("database", 10, node="n1", start=2, labels=TIER.labels)
    needy = crowded_nodes.pod("server", 20, node="n1", start=1, needs=TIER.labels, near="zone")
    assert judged(crowded_nodes.world(HERE, NEAR, database, needy, other), "database") == [
        "server",
        "database",
    ]


@pytest.mark.scenario("PR-16", "PR-33")
def test_chains_and_pairs_are_evicted_whole() -> None:
    third = crowded_nodes.pod("third", 5, node="n1", labels={"app": "x"}, needs={"app": "server"})
    snapshot = crowded_nodes.world(HERE, DATABASE, server(), third)
    assert judged(snapshot, "database") == ["server", "database", "third"]
    one = crowded_nodes.pod("one", 5, node="n1", labels={"app": "1"}, needs={"app": "2"})
    two = crowded_nodes.pod("two", 4, node="n1", labels={"app": "2"}, needs={"app": "1"})
    assert judged(crowded_nodes.world(HERE, one, two), "two") == ["one", "two"]


def test_a_pod_that_meets_its_own_affinity_stays() -> None:
    twins = [
        crowded_nodes.pod(name, 5, node="n1", labels={"app": "t"}, needs={"app": "t"}) for name in ("x", "y")
    ]
    assert judged(crowded_nodes.world(HERE, *twins), "x") == ["x"]


def test_pods_that_were_stranded_before_stay() -> None:
    snapshot = crowded_nodes.world(HERE, server(), crowded_nodes.pod("other", 1, node="n1"))
    assert judged(snapshot, "other") == ["other"]


def test_dependents_may_be_ignored() -> None:
    ignoring = registry.Registry([plugin.PreemptionRules(co_dependents="ignore")])
    snapshot = crowded_nodes.world(HERE, DATABASE, server())
    assert judged(snapshot, "database", plugins=ignoring) == ["database"]


@pytest.mark.scenario("PR-35")
def test_victims_are_answered_by_importance() -> None:
    pods = crowded_nodes.four()
    assert judged(crowded_nodes.world(HERE, *pods), "d", "b", "a", "c") == ["a", "b", "c", "d"]


@pytest.mark.scenario("PR-36")
def test_no_pod_of_equal_priority_is_evicted() -> None:
    equal = crowded_nodes.pod("equal", 50, node="n1")
    snapshot = crowded_nodes.world(HERE, DATABASE, equal)
    assert judged(snapshot, "equal", "database") == "a listed victim is not less important than the pod"


@pytest.mark.scenario("PR-36")
def test_no_pod_is_evicted_that_is_not_recorded() -> None:
    """A pod that depends on it, or its own importance, is unknown, too."""
    snapshot = crowded_nodes.world(HERE, DATABASE)
    assert judged(snapshot, "database", "unknown") == "a listed victim is not recorded"
    assert judged(snapshot, "unknown", plugins=registry.Registry([])) == ["unknown"], "no plugin could object"


SERVERS = budgets.DisruptionBudget(
    uid="x", namespace="ns", name="x", selector=model.Selector({"app": "server"}), allowed=0
)


@pytest.mark.scenario("PR-17", "PR-34")
def test_violations_are_counted_again_where_victims_were_added() -> None:
    plugins = registry.Registry([plugin.PreemptionRules(), fake_plugins.Budgeting(known=(SERVERS,))])
    base = cycles.cycle(
        crowded_nodes.pod("p", 50), frozenset(("n1",)), crowded_nodes.world(HERE, DATABASE, server())
    )
    kept = offers.judge(plugins, base, {"n1": ["database"]}).kept["n1"]
    assert (kept.violations, [pod.name for pod in kept.added]) == (1, ["server"])
    assert offers.judge(plugins, base, {"n1": ["server"]}).kept["n1"].violations is None


def test_pods_that_wait_for_evictions_are_counted() -> None:
    waiting = [crowded_nodes.pod(f"waiting-{number}", 50, nominated="n1") for number in range(2)]
    shown = plugin.PreemptionRules().shown().summary
    assert shown is not None
    seen = [[line.seen for line in shown(crowded_nodes.world(HERE, *waiting[:number]))] for number in (1, 2)]
    assert seen == [["1 pod waits for evictions"], ["2 pods wait for evictions"]]


def test_nominations_are_listed() -> None:
    waiting = crowded_nodes.pod("waiting", 50, nominated="n1")
    lost = crowded_nodes.pod("lost", 50, nominated="gone")
    bound = crowded_nodes.pod("bound", 50, node="n1", nominated="n1")
    snapshot = crowded_nodes.world(HERE, waiting, lost, bound)
    endpoint = plugin.PreemptionRules().shown().endpoints[0]
    listed = endpoint.handle(snapshot, {})
    assert isinstance(listed, views.Listed)
    assert [listed.item(key) for key in sorted(listed.keys)] == [
        {"node": "gone", "known": False, "pod": "ns/lost", "uid": "lost", "priority": 50},
        {"node": "n1", "known": True, "pod": "ns/waiting", "uid": "waiting", "priority": 50},
    ]
