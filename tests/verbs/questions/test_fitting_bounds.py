"""An answer states whether a smaller change may be among those that were not evaluated."""

from collections.abc import Iterable

from app.domain import events, projections, snapshots
from app.framework import cycles, pipeline
from app.verbs.explain import advice
from app.verbs.questions import minimal_changes, question_schema, situations
from tests.support import declared
from tests.support.decisions import small_clusters
from tests.support.decisions.cluster_strategies import SELECTED

RULES = SELECTED[10]
WEB = {"app": small_clusters.APP}
ASKING = small_clusters.pod("asking", WEB)
RACKS = [*(f"r{at:02}" for at in range(69)), "zz"]


def limits(name: str, key: str, quotas: dict[str, int]) -> events.AnyEvent:
    """A policy over the label ``key`` of nodes."""
    return declared.observed(small_clusters.policy(quotas, required=True, name=name, key=key))


def world(*happened: events.AnyEvent, racks: Iterable[str] = RACKS) -> snapshots.Snapshot:
    """A node in each rack; all but that of the last rack are in the zone a, which is full, as all racks are."""
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
