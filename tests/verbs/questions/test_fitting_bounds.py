"""An answer states whether a smaller change may be among those that were not evaluated."""

from collections.abc import Callable, Iterable

import pytest

from app.domain import events, projections, snapshots, verdicts
from app.framework import cycles, pipeline, registry
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.workload_policy.plugin import WorkloadPolicy
from app.verbs.explain import advice
from app.verbs.questions import minimal_changes, question_schema, situations
from app.verbs.questions.groups import fitting_groups, group_placement
from tests.support import declared
from tests.support.decisions import small_clusters, small_gangs
from tests.support.decisions.cluster_strategies import SELECTED

RULES = SELECTED[10]
WEB = {"app": small_clusters.APP}
ASKING = small_clusters.pod("asking", WEB)
GANGS = registry.Registry([WorkloadPolicy(), Coscheduling()])
RACKS = [*(f"r{at:02}" for at in range(69)), "zz"]


def limits(name: str, key: str, quotas: dict[str, int]) -> events.AnyEvent:
    """A policy over the label ``key`` of nodes."""
    return declared.observed(small_clusters.policy(quotas, required=True, name=name, key=key))


def world(*happened: events.AnyEvent, racks: Iterable[str] = RACKS) -> snapshots.Snapshot:
    """A node in each rack, all but that of the rack zz in the zone a: the zone a and all racks are full."""
    nodes = [
        events.NodeSeen(node=small_clusters.node(rack, {"rack": rack, "zone": "b" if rack == "zz" else "a"}))
        for rack in racks
    ]
    policies = limits("racks", "rack", dict.fromkeys(racks, 0)), limits("zones", "zone", {"a": 0, "b": 9})
    empty = snapshots.empty(schema=declared.SCHEMA, indexed=RULES.indexed())
    return projections.project_all(empty, [*nodes, *policies, events.PodSeen(pod=ASKING), *happened])


def fit(given: snapshots.Snapshot, *allow: question_schema.Allowed) -> minimal_changes.Fit:
    resolved = situations.Resolved(given, given, RULES)
    return minimal_changes.fit(resolved, ASKING.uid, given.topology.everywhere, allow, 5, lambda: True)


def explained(given: snapshots.Snapshot) -> tuple[str, ...]:
    cycle = cycles.cycle(ASKING, given.topology.everywhere, given)
    return advice.smallest(RULES, cycle, pipeline.run_filter(RULES, cycle).refusals)


def test_pairs_are_not_complete_if_a_single_change_was_left_out() -> None:
    """The 71st proposal, one more replica in the rack zz, helps alone."""
    found = fit(world(), "objects")
    assert {change.cost for change in found.changes} == {2}
    assert not found.complete
    *_, last = explained(world())
    assert last == advice.LEFT_OUT


def test_an_answer_is_complete_if_all_that_may_be_smaller_was_evaluated() -> None:
    few = world(racks=RACKS[-50:])
    found = fit(few, "objects")
    assert [change.message for change in found.changes] == [
        "zz needs 1 more replica in policy workload-test/racks"
    ]
    assert found.complete
    assert explained(few) == (found.changes[0].message,)


def test_deletions_of_which_one_may_be_spared_are_not_returned_when_the_budget_ends() -> None:
    """The pod in the rack suffices, and the one that is only in its zone comes first."""
    pods = [
        small_clusters.pod(name, WEB, node=node, created=created)
        for name, node, created in (
            ("in-zone", "r01", "2026-01-02T00:00:00Z"),
            ("in-both", "r00", "2026-01-01T00:00:00Z"),
        )
    ]
    given = world(
        *(events.PodSeen(pod=pod) for pod in pods),
        limits("racks", "rack", {"r00": 1, "r01": 0}),
        limits("zones", "zone", {"a": 2}),
        racks=["r00", "r01"],
    )

    def answer(budget: int) -> minimal_changes.Fit:
        left = iter(range(budget))
        resolved = situations.Resolved(given, given, RULES)
        offered = frozenset(["r00"])
        return minimal_changes.fit(
            resolved, ASKING.uid, offered, ["pods"], 5, lambda: next(left, None) is not None
        )

    whole = answer(100)
    assert [change.overrides for change in whole.changes] == [(minimal_changes.deletion([pods[1].key]),)]
    assert whole.complete
    cut = [answer(budget) for budget in range(12)]
    assert {found.complete for found in cut} == {False, True}
    for found in cut:
        assert found.changes in ((), whole.changes)
        assert bool(found.changes) == found.complete


def fit_gang(members: int, running: Callable[[], bool]) -> minimal_changes.Fit:
    """The advice for a supposed gang of which the policies refuse each member by itself."""
    node = small_gangs.node("n1", members)
    empty = snapshots.empty(schema=declared.SCHEMA, indexed=GANGS.indexed())
    cluster = projections.project_all(empty, [events.NodeSeen(node=node)])
    metadata = {"name": "train", "namespace": "ml", "labels": {small_clusters.LABEL: ""}}
    template = {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}
    asked = question_schema.Gang(members=members, template=template)
    name, added = group_placement.introduced(asked, GANGS, cluster)
    supposed = projections.project_all(cluster, added)
    resolved = situations.Resolved(supposed, supposed, GANGS)
    return fitting_groups.fit(resolved, name, frozenset(["n1"]), question_schema.ALLOWED, 5, running)


def test_what_costs_more_than_is_wanted_is_not_evaluated() -> None:
    """Another label for each of 60 members costs 1,200."""
    found = fit_gang(60, lambda: True)
    assert found.changes == ()
    assert found.tried < 20


class HungUp(Exception):
    """The client has closed the connection."""


def test_the_search_for_a_gang_ends_with_the_placement_of_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the budget ends, and when the client hangs up; what was found before is returned."""
    run = pipeline.run
    checks = since = most = 0

    def counted(plugins: registry.Registry, cycle: cycles.Cycle) -> verdicts.Trace:
        nonlocal since, most
        since += 1
        most = max(most, since)
        return run(plugins, cycle)

    def until(last: int, end: Callable[[], bool]) -> Callable[[], bool]:
        """Running up to a number of checks."""
        nonlocal checks, since
        checks = since = 0

        def running() -> bool:
            nonlocal checks, since
            checks += 1
            if checks > last:
                return end()
            since = 0
            return True

        return running

    def hang_up() -> bool:
        raise HungUp

    monkeypatch.setattr(pipeline, "run", counted)
    whole = fit_gang(4, until(1_000_000, hang_up))
    (change,), all_of_them = whole.changes, checks
    assert (change.cost, len(change.overrides), whole.complete) == (80, 4, True)
    answers = set[int]()
    for last in range(0, all_of_them, 11):
        found = fit_gang(4, until(last, bool))
        assert not found.complete
        assert found.changes in ((), whole.changes)
        answers.add(len(found.changes))
        with pytest.raises(HungUp):
            fit_gang(4, until(last, hang_up))
    assert most == 1
    assert answers == {0, 1}
