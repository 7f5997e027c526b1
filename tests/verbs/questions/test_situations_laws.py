"""Laws of situations: which nodes are candidates, and which pods a selector may match."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import model, selectors, snapshots
from app.plugins.workload_policy import kinds
from app.verbs.questions import question_schema, situations
from tests.support import declared
from tests.support.decisions.cluster_strategies import PLUGINS, candidates, unhurried, worlds

RULES = PLUGINS[10]


@unhurried
@given(world=worlds(), offered=candidates, data=st.data())
def test_candidates_follow_from_the_nodes_that_overrides_change(
    world: snapshots.Snapshot, offered: frozenset[str], data: st.DataObject
) -> None:
    names = sorted(world.nodes)
    if not names:
        return
    ops = st.sampled_from(["cordon", "uncordon", "removeNodes", "addNodes"])
    overrides: list[dict[str, object]] = []
    left, origins = list(names), dict[str, str]()
    for op in data.draw(st.lists(ops, max_size=5)):
        if not left:
            break
        node = data.draw(st.sampled_from(left))
        if op == "addNodes":
            prefix = f"new{len(overrides)}"
            overrides.append({"op": op, "count": 2, "like": node, "prefix": prefix})
            added = [f"{prefix}-1", f"{prefix}-2"]
            left += added
            origins |= dict.fromkeys(added, origins.get(node, node))
        else:
            overrides.append({"op": op, "nodes": [node]})
        if op == "removeNodes":
            left.remove(node)
    asked = question_schema.Situation(overrides=overrides)
    supposed = situations.hypothesis(asked, RULES, [type(plugin) for plugin in RULES.plugins])
    resolved = situations.resolve(world, supposed)
    for before in (offered & frozenset(names), world.topology.everywhere):
        found = resolved.offered(before)
        assert found == dataclasses.replace(resolved, changed=None).offered(before)
        for name in resolved.snapshot.nodes:
            after = resolved.snapshot.nodes[name]
            was = world.nodes.get(name)
            cordoned = after.unschedulable and not (was is not None and was.unschedulable)
            assert (name in found) == (origins.get(name, name) in before and not cordoned), name
        assert found <= frozenset(resolved.snapshot.nodes)


@unhurried
@given(world=worlds())
def test_the_pods_that_a_selector_may_match_contain_all_that_it_matches(world: snapshots.Snapshot) -> None:
    for policy in world.all(kinds.POLICIES).values():
        found = world.selectable(policy.namespace, policy.selector)
        assert set(found) <= set(world.namespaces.get(policy.namespace, ()))
        for uid in world.namespaces.get(policy.namespace, ()):
            pod = world.pod(uid)
            assert isinstance(pod, model.Pod)
            assert uid in found or not selectors.matches(policy.selector, pod.labels)


class HungUp(Exception):
    """The client has closed the connection."""


def test_an_override_that_changes_nothing_is_not_computed_for_a_client_that_hung_up() -> None:
    def attended() -> None:
        raise HungUp

    nothing = {"op": "deletePods", "pods": {"selector": {"none": "such"}}}
    supposed = dataclasses.replace(situations.supposition_of([nothing], RULES), attended=attended)
    with pytest.raises(HungUp):
        situations.resolve(snapshots.empty(schema=declared.SCHEMA), supposed)
