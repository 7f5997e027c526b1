"""Laws of advice: fed back into a simulation it fits, without a part of it does not, and none is cheaper."""

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from app.domain import events, model, projections, schema, snapshots
from app.domain.fit import fitting_nodes
from app.framework import cycles, pipeline, registry
from app.plugins.workload_policy import advice as policy_advice
from app.plugins.workload_policy import kinds, logic, policy_model
from app.verbs.explain import advice
from app.verbs.questions import kinds as question_kinds
from app.verbs.questions import minimal_changes, question_schema, situations
from tests.support import declared, gadgets
from tests.support.campaigns import sizes
from tests.support.decisions import small_clusters
from tests.support.decisions.cluster_strategies import (
    ASKING,
    PLUGINS,
    candidates,
    pods_asking,
    settings_of,
    unhurried,
    worlds,
)

RULES = PLUGINS[10]


def resolved(
    world: snapshots.Snapshot,
    asking_pod: model.Pod,
    overrides: list[dict[str, Any]],
    rules: registry.Registry = RULES,
) -> situations.Resolved:
    asked = question_schema.Situation(overrides=overrides)
    supposed = situations.hypothesis(asked, rules, [type(plugin) for plugin in rules.plugins])
    return situations.resolve(world, supposed, first=(events.PodSeen(pod=asking_pod),))


def fits(
    world: snapshots.Snapshot,
    pod: model.Pod,
    offered: frozenset[str],
    overrides: list[dict[str, Any]],
    rules: registry.Registry = RULES,
) -> bool:
    """Whether the pod is kept somewhere in the situation of the overrides."""
    situation = resolved(world, pod, overrides, rules)
    asked = situation.snapshot.pods[pod.uid]
    return bool(pipeline.run_filter(rules, cycles.cycle(asked, offered, situation.snapshot)).kept)


@pytest.mark.scenario("WI-3")
@unhurried
@given(world=worlds(), offered=candidates, pod=pods_asking)
def test_advice_fits_and_without_a_part_of_it_does_not(
    world: snapshots.Snapshot, offered: frozenset[str], pod: model.Pod
) -> None:
    offered = offered & frozenset(world.nodes)
    situation = resolved(world, pod, [])
    answer = minimal_changes.fit(situation, pod.uid, offered, question_schema.ALLOWED, 5, lambda: True)
    assert answer.fits == (bool(offered) and fits(world, pod, offered, []))
    assert len({change.cost for change in answer.changes}) <= 1
    for change in answer.changes:
        overrides = list(change.overrides)
        assert change.kept
        assert fits(world, pod, offered, overrides), change
        for fewer in without_one(overrides):
            assert not fits(world, pod, offered, fewer), (change, fewer)


@st.composite
def crowded(draw: st.DrawFn) -> snapshots.Snapshot:
    """A cluster whose quotas are exceeded, often by several pods, and often those of two policies."""
    domains = draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=3))
    nodes = [small_clusters.node(f"n{at}", {small_clusters.KEY: one}) for at, one in enumerate(domains)]
    policies = [
        small_clusters.policy({one: draw(st.integers(1, 2)) for one in "ab"}, required=True, name=name)
        for name in draw(st.sampled_from([(small_clusters.POLICY,), (small_clusters.POLICY, "other")]))
    ]
    pods = [
        small_clusters.pod(f"{node.name}-{at}", small_clusters.REPLICA, node=node.name)
        for node in nodes
        for at in range(draw(st.integers(1, 4)))
    ]
    facts: list[events.AnyEvent] = [events.NodeSeen(node=node) for node in nodes]
    facts += [declared.observed(policy) for policy in policies]
    facts += [events.PodSeen(pod=pod) for pod in pods]
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA, indexed=RULES.indexed()), facts)


def without_one(overrides: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Each way to leave out one override, or one of several pods that are deleted."""
    found = [overrides[:at] + overrides[at + 1 :] for at in range(len(overrides))]
    for at, part in enumerate(overrides):
        pods = part["pods"] if part["op"] == "deletePods" and len(part["pods"]) > 1 else []
        fewer = [{**part, "pods": [other for other in pods if other != name]} for name in pods]
        found += [[*overrides[:at], one, *overrides[at + 1 :]] for one in fewer]
    return found


@pytest.mark.scenario("WI-3")
def test_of_several_changes_each_is_needed() -> None:
    """In answers of several overrides and of several deleted pods, of which there are many here."""
    parts, deleted = 0, 0

    # The same examples in each run, so that what is counted does not depend on chance.
    @settings(max_examples=sizes.examples(200), deadline=None, database=None, derandomize=True)
    @given(
        world=crowded(),
        rules=settings_of,
        allow=st.sampled_from([question_schema.ALLOWED, ("pods",), ("objects",)]),
    )
    def law(
        world: snapshots.Snapshot,
        rules: dict[int, registry.Registry],
        allow: tuple[question_schema.Allowed, ...],
    ) -> None:
        nonlocal parts, deleted
        plugins, offered = rules[10], frozenset(world.nodes)
        situation = resolved(world, ASKING, [], plugins)
        for change in minimal_changes.fit(situation, ASKING.uid, offered, allow, 5, lambda: True).changes:
            overrides = list(change.overrides)
            parts += len(overrides) > 1
            deleted += any(len(part.get("pods", ())) > 1 for part in overrides)
            assert fits(world, ASKING, offered, overrides, plugins), change
            for fewer in without_one(overrides):
                assert not fits(world, ASKING, offered, fewer, plugins), (change, fewer)

    law()
    assert parts > 2
    assert deleted > 5


def roomy(situation: situations.Resolved, uid: model.Uid) -> frozenset[str]:
    return fitting_nodes.FittingNodes(situation.snapshot).of(situation.snapshot.pods[uid])


def fits_roomy(world: snapshots.Snapshot, pod: model.Pod, overrides: list[dict[str, Any]]) -> bool:
    """Whether the pod is kept on a node that it fits on in the situation."""
    situation = resolved(world, pod, overrides)
    cycle = cycles.cycle(situation.snapshot.pods[pod.uid], roomy(situation, pod.uid), situation.snapshot)
    return bool(pipeline.run_filter(RULES, cycle).kept)


@pytest.mark.scenario("WI-3")
@settings(max_examples=sizes.examples(50), deadline=None)
@given(world=worlds(), most=st.integers(1, 4), pod=pods_asking, selected=st.booleans())
def test_advice_for_roomy_candidates_fits_where_kube_scheduler_would_offer_nodes(
    world: snapshots.Snapshot, most: int, pod: model.Pod, selected: bool
) -> None:
    """Nodes take few pods, and the pod may refuse those with a label that the advice would set."""
    sized = [
        events.NodeSeen(node=msgspec.structs.replace(node, allocatable={"pods": most}))
        for node in world.nodes.values()
    ]
    world = projections.project_all(world, sized)
    term = model.NodeTerm((model.Requirement(small_clusters.KEY, "NotIn", ("a",)),))
    constraints = model.Constraints(node_terms=(term,)) if selected else model.STANDARD
    pod = msgspec.structs.replace(pod, constraints=constraints)
    situation = resolved(world, pod, [])
    offered = roomy(situation, pod.uid)
    answer = minimal_changes.fit(
        situation, pod.uid, offered, question_schema.ALLOWED, 5, lambda: True, roomy=True
    )
    assert answer.fits == (bool(offered) and fits_roomy(world, pod, []))
    for change in answer.changes:
        overrides = list(change.overrides)
        assert fits_roomy(world, pod, overrides), change
        for at in range(len(overrides)):
            assert not fits_roomy(world, pod, overrides[:at] + overrides[at + 1 :]), change


@pytest.mark.scenario("WI-3")
@unhurried
@given(world=worlds(), offered=candidates)
def test_no_single_quota_or_deletion_is_cheaper(world: snapshots.Snapshot, offered: frozenset[str]) -> None:
    """All quotas of the policy that the pod names, raised step by step; every single pod deleted."""
    offered = offered & frozenset(world.nodes)
    answer = minimal_changes.fit(
        resolved(world, ASKING, []), ASKING.uid, offered, question_schema.ALLOWED, 5, lambda: True
    )
    if answer.fits or not offered:
        return
    cost = min((change.cost for change in answer.changes), default=10**9)
    policy = world.get(kinds.POLICIES, f"{ASKING.namespace}/{ASKING.labels[logic.LABEL]}")
    for allocation in policy.allocations if policy is not None and not policy.errors else ():
        for more in range(1, min(cost, 6)):
            scaled = {
                "op": "scalePolicy",
                "policy": f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}",
                "allocations": {allocation.name: f"+{more}"},
            }
            assert not fits(world, ASKING, offered, [scaled])
    if cost > 1:
        for pod in world.pods.values():
            if pod.uid != ASKING.uid and world.names[pod.key] == pod.uid:
                deleted = {"op": "deletePods", "pods": [pod.key]}
                assert not (world.node_of(pod.uid) and fits(world, ASKING, offered, [deleted]))


def found_within(
    world: snapshots.Snapshot, pod: model.Pod, offered: frozenset[str], *allow: question_schema.Allowed
) -> int | None:
    """The cost of the advice that consists of such changes; None without one."""
    answer = minimal_changes.fit(resolved(world, pod, []), pod.uid, offered, allow, 5, lambda: True)
    return min((change.cost for change in answer.changes), default=None)


def policy_of(world: snapshots.Snapshot) -> policy_model.WorkloadPolicy | None:
    return world.get(kinds.POLICIES, f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}")


@pytest.mark.scenario("WI-3")
@unhurried
@given(world=worlds(), offered=candidates)
def test_no_single_label_of_a_node_is_cheaper(world: snapshots.Snapshot, offered: frozenset[str]) -> None:
    """Each domain of the policy on each offered node that is in none of its domains."""
    offered, policy = offered & frozenset(world.nodes), policy_of(world)
    if policy is None or not offered or fits(world, ASKING, offered, []):
        return
    singles = [
        {"op": "labelNodes", "nodes": [name], "labels": {policy.topology_key: allocation.name}}
        for name in sorted(offered)
        if policy.topology_key not in world.nodes[name].labels
        for allocation in policy.allocations
    ]
    helped = any(fits(world, ASKING, offered, [single]) for single in singles)
    assert found_within(world, ASKING, offered, "nodes") == (policy_advice.NODE_COST if helped else None)
    cheapest = found_within(world, ASKING, offered, *question_schema.ALLOWED)
    assert not helped or (cheapest is not None and cheapest <= policy_advice.NODE_COST)


@pytest.mark.scenario("WI-3")
@unhurried
@given(world=worlds(), offered=candidates, broken=st.booleans())
def test_no_single_label_of_the_pod_is_cheaper(
    world: snapshots.Snapshot, offered: frozenset[str], broken: bool
) -> None:
    """Each label of the policy's selector that the pod lacks, and the removal of one that names no policy."""
    offered, policy = offered & frozenset(world.nodes), policy_of(world)
    labels = {logic.LABEL: "" if broken else small_clusters.POLICY}
    pod = small_clusters.pod("asking", labels, priority=1)
    if not offered or fits(world, pod, offered, []):
        return
    singles: dict[int, dict[str, str | None]] = (
        {policy_advice.LABEL_COST: {logic.LABEL: None}} if broken else {}
    )
    if policy is not None and not policy.errors and not broken:
        singles[policy_advice.SELECTED_COST + 1] = dict(policy.selector.labels)
    costs = [
        cost
        for cost, changed in sorted(singles.items())
        if fits(world, pod, offered, [{"op": "labelPods", "pods": [pod.key], "labels": changed}])
    ]
    assert found_within(world, pod, offered, "labels") == min(costs, default=None)
    cheapest = found_within(world, pod, offered, *question_schema.ALLOWED)
    assert not costs or (cheapest is not None and cheapest <= min(costs))


@settings(max_examples=sizes.examples(300), deadline=None)
@given(world=worlds(), offered=candidates, pod=pods_asking, rules=settings_of)
def test_a_proposal_that_is_indirect_does_not_help_alone(
    world: snapshots.Snapshot,
    offered: frozenset[str],
    pod: model.Pod,
    rules: dict[int, registry.Registry],
) -> None:
    plugins = rules[10]
    cycle = cycles.cycle(pod, offered & frozenset(world.nodes), world)
    trace = pipeline.run_filter(plugins, cycle)
    if trace.kept:
        return
    for proposed in advice.proposed(plugins, cycle, trace.refusals):
        event("indirect" if proposed.indirect else "direct")
        if proposed.indirect:
            changed = projections.project_all(world, [make() for make in proposed.changes])
            after = dataclasses.replace(cycle, snapshot=changed)
            assert not pipeline.run_filter(plugins, after).kept, proposed.message


@unhurried
@given(world=worlds(), offered=candidates)
def test_on_some_of_the_nodes_a_pod_raises_all_the_counts_that_it_can(
    world: snapshots.Snapshot, offered: frozenset[str]
) -> None:
    """Nodes that are not known raise none."""
    counts = question_kinds.counting(world)
    for nodes in (offered, frozenset(world.nodes)):
        chosen = question_kinds.counted_apart(world, nodes)
        assert nodes.issuperset(chosen)
        for pod in (ASKING, *world.pods.values()):
            assert {counts(pod, name) for name in chosen} == {counts(pod, name) for name in nodes}


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ({"node_fields": ("name",)}, 3),
        ({"node_fields": ("labels",)}, 3),
        ({"node_fields": ("labels", "name"), "node_labels": lambda _: ("zone",)}, 3),
        ({"node_fields": ("labels",), "node_labels": lambda _: ("zone",)}, 2),
        ({"node_fields": ()}, 1),
    ],
)
def test_only_counters_that_name_their_labels_are_asked_for_fewer_nodes(
    changed: dict[str, Any], chosen: int
) -> None:
    counter = dataclasses.replace(gadgets.SIZES, **changed)
    nodes = [small_clusters.node(name, {"zone": zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]
    world = projections.project_all(
        snapshots.empty(schema=schema.Schema((gadgets.GADGETS,), (counter,))),
        [events.NodeSeen(node=node) for node in nodes],
    )
    assert len(list(question_kinds.counted_apart(world, frozenset("abc")))) == chosen
