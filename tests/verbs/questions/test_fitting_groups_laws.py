"""Laws of advice for gangs: fed back into a simulation the gang is placed, without a part of it it is not."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import model, projections, snapshots
from app.domain.events import AnyEvent, NodeSeen, PodSeen
from app.framework import registry
from app.plugins.coscheduling import kinds
from app.plugins.coscheduling.membership import SIGS_LABEL
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.workload_policy.plugin import WorkloadPolicy
from app.verbs.questions import minimal_changes, question_schema, situations
from app.verbs.questions.groups import fitting_groups, group_placement
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import small_clusters, small_gangs

RULES = registry.Registry([WorkloadPolicy(), Coscheduling()])
EMPTY = snapshots.empty(schema=declared.SCHEMA, indexed=RULES.indexed())
GANG = f"{small_clusters.NAMESPACE}/train"
allowed = st.lists(st.sampled_from(question_schema.ALLOWED), min_size=1, unique=True)


@st.composite
def worlds(draw: st.DrawFn) -> snapshots.Snapshot:
    """A gang that waits beside other pods: for capacity, for a quota, for members, or for two of these."""
    domains = draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=4))
    happened: list[AnyEvent] = [
        NodeSeen(
            node=small_gangs.node(
                f"n{number}", draw(st.integers(1, 4)), {small_clusters.KEY: domain, small_gangs.ZONE: domain}
            )
        )
        for number, domain in enumerate(domains)
    ]
    quotas = {"a": draw(st.integers(0, 5)), "b": draw(st.integers(0, 5))}
    happened.append(declared.observed(small_clusters.policy(quotas, required=True, method="Fill")))
    under_policy = draw(st.booleans())
    labels = {SIGS_LABEL: "train", **(small_clusters.REPLICA if under_policy else {})}
    group = small_gangs.sigs("train", draw(st.integers(1, 5)), namespace=small_clusters.NAMESPACE)
    happened.append(kinds.SIGS.observed(group))
    for number in range(draw(st.integers(1, 5))):
        happened.append(PodSeen(pod=pod(f"train-{number}", labels)))
    for number in range(draw(st.integers(0, 2))):
        node = draw(st.sampled_from([f"n{at}" for at in range(len(domains))]))
        happened.append(PodSeen(pod=pod(f"train-on-{number}", labels, node)))
    for number in range(draw(st.integers(0, 5))):
        node = draw(st.sampled_from([f"n{at}" for at in range(len(domains))]))
        other = draw(st.sampled_from([{}, small_clusters.REPLICA]))
        happened.append(PodSeen(pod=pod(f"other-{number}", other, node)))
    empty = snapshots.empty(schema=declared.SCHEMA, indexed=RULES.indexed())
    return projections.project_all(empty, happened)


def pod(name: str, labels: dict[str, str], node: str = "") -> model.Pod:
    return small_gangs.pod(name, namespace=small_clusters.NAMESPACE, labels=labels, node=node)


def outcome(
    world: snapshots.Snapshot, overrides: list[dict[str, Any]], name: str = GANG
) -> group_placement.Outcome:
    """What becomes of the gang in the situation of the overrides."""
    supposed = situations.supposition_of(overrides, RULES)
    resolved = situations.resolve(world, supposed)
    return group_placement.place(RULES, resolved.snapshot, name, None, lambda: True)


def is_other(one: model.Pod) -> bool:
    """Whether the pod has a node and is no member."""
    return bool(one.node) and not one.key.startswith(f"{GANG}-")


def advice(
    world: snapshots.Snapshot, allow: list[question_schema.Allowed], name: str = GANG
) -> minimal_changes.Fit:
    resolved = situations.Resolved(world, world, RULES)
    return fitting_groups.fit(resolved, name, None, allow, 5, lambda: True)


@pytest.mark.scenario("WI-3")
@settings(max_examples=sizes.examples(60), deadline=None)
@given(world=worlds(), allow=allowed)
def test_advice_places_the_gang_and_without_a_part_of_it_does_not(
    world: snapshots.Snapshot, allow: list[question_schema.Allowed]
) -> None:
    answer = advice(world, allow)
    assert answer.fits == outcome(world, []).fits
    assert answer.complete
    assert not (answer.fits and answer.changes)
    assert len({change.cost for change in answer.changes}) <= 1
    for change in answer.changes:
        overrides = list(change.overrides)
        found = outcome(world, overrides)
        assert found.fits, change
        assert found.several.placed == change.kept
        for at, part in enumerate(overrides):
            assert not outcome(world, overrides[:at] + overrides[at + 1 :]).fits, change
            if part["op"] == "deletePods":
                assert not any(name.startswith(f"{GANG}-") for name in part["pods"]), change
            if part["op"] == "deletePods" and len(part["pods"]) > 1:
                for name in part["pods"]:
                    fewer = {**part, "pods": [other for other in part["pods"] if other != name]}
                    assert not outcome(world, [*overrides[:at], fewer, *overrides[at + 1 :]]).fits, change
            if part["op"] == "addNodes" and part["count"] > 1:
                fewer = {**part, "count": part["count"] - 1}
                assert not outcome(world, [*overrides[:at], fewer, *overrides[at + 1 :]]).fits, change


@pytest.mark.scenario("WI-3")
@settings(max_examples=sizes.examples(60), deadline=None)
@given(world=worlds())
def test_no_single_change_is_cheaper(world: snapshots.Snapshot) -> None:
    """One member fewer, one pod fewer, one more node of each kind, one more replica in each domain."""
    answer = advice(world, list(question_schema.ALLOWED))
    if answer.fits or min((change.cost for change in answer.changes), default=2) == 1:
        return
    singles: list[dict[str, Any]] = [{"op": "addNodes", "like": name} for name in world.nodes]
    minimum = next(iter(world.all(kinds.SIGS).values())).minimum
    if minimum > 1:
        singles.append({"op": "scaleGang", "gang": GANG, "minimum": "-1"})
    policy = f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}"
    singles += [{"op": "scalePolicy", "policy": policy, "allocations": {domain: "+1"}} for domain in "ab"]
    singles += [{"op": "deletePods", "pods": [one.key]} for one in world.pods.values() if is_other(one)]
    for one in singles:
        assert not outcome(world, [one]).fits, one


@settings(max_examples=sizes.examples(60), deadline=None)
@given(world=worlds(), members=st.integers(1, 6), fewer=st.integers(0, 5), cpu=st.integers(1, 3))
def test_a_supposed_gang_is_placed_as_if_its_pods_had_been_created(
    world: snapshots.Snapshot, members: int, fewer: int, cpu: int
) -> None:
    minimum = max(1, members - fewer)
    template = {
        "metadata": {"name": "new", "namespace": small_clusters.NAMESPACE},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]},
    }
    asked = question_schema.Gang(members=members, template=template, minimum=minimum)
    name, added = group_placement.introduced(asked, RULES, world)
    supposed = projections.project_all(world, added)
    found = group_placement.place(RULES, supposed, name, None, lambda: True)
    free = [
        node.allocatable["cpu"] // small_gangs.CORE - world.used(node.name).get("cpu", 0) // small_gangs.CORE
        for node in world.nodes.values()
    ]
    capacity = sum(max(0, one) // cpu for one in free)
    assert found.fits == (capacity >= minimum)
    assert found.several.placed == (min(capacity, members) if found.fits else 0)
    assert len(found.several.results) == members


@pytest.mark.scenario("WI-3")
def test_a_member_that_runs_is_not_deleted_for_another() -> None:
    """Its deletion is no advice: its Job creates it again."""
    labels = {SIGS_LABEL: "train"}
    group = kinds.SIGS.observed(small_gangs.sigs("train", 2, namespace=small_clusters.NAMESPACE))
    running = (PodSeen(pod=pod(f"train-on-{at}", labels, "n0")) for at in range(2))
    seen: list[AnyEvent] = [NodeSeen(node=small_gangs.node("n0", 2)), group, *running]
    seen.append(PodSeen(pod=pod("train-0", labels)))
    world = projections.project_all(snapshots.empty(schema=declared.SCHEMA, indexed=RULES.indexed()), seen)
    answer = advice(world, ["pods"])
    assert (answer.fits, answer.changes) == (False, ())


@pytest.mark.parametrize(("evaluated", "messages"), [(0, 0), (64, 1)])
def test_advice_is_incomplete_if_proposals_were_left_out(
    monkeypatch: pytest.MonkeyPatch, evaluated: int, messages: int
) -> None:
    monkeypatch.setattr(minimal_changes, "EVALUATED", evaluated)
    group = kinds.SIGS.observed(small_gangs.sigs("train", 1, namespace=small_clusters.NAMESPACE))
    node = small_gangs.node("n0", 2, {small_clusters.KEY: "a"})
    full = declared.observed(small_clusters.policy({"a": 0}, required=True))
    waiting = PodSeen(pod=pod("train-0", {SIGS_LABEL: "train", **small_clusters.REPLICA}))
    empty = snapshots.empty(schema=declared.SCHEMA, indexed=RULES.indexed())
    answer = advice(projections.project_all(empty, [NodeSeen(node=node), group, full, waiting]), ["objects"])
    assert (len(answer.changes), answer.complete) == (messages, bool(messages))


@pytest.mark.parametrize(("number", "complete"), [(4, True), (5, False)])
def test_advice_is_incomplete_if_kinds_of_nodes_were_left_out(number: int, complete: bool) -> None:
    """Two more of one of the four are enough; of the fifth, which is not tried, one may be."""
    seen: list[AnyEvent] = [
        NodeSeen(node=small_gangs.node(f"n{at}", 1, {small_clusters.KEY: str(at)})) for at in range(number)
    ]
    group = small_gangs.sigs("train", number + 2, namespace=small_clusters.NAMESPACE)
    seen.append(kinds.SIGS.observed(group))
    labels = {SIGS_LABEL: "train"}
    seen += [PodSeen(pod=pod(f"train-{at}", labels)) for at in range(number + 2)]
    answer = advice(projections.project_all(EMPTY, seen), ["nodes"])
    assert ({change.cost for change in answer.changes}, answer.complete) == ({2}, complete)


@pytest.mark.parametrize(("most", "complete"), [(4, True), (3, False)])
def test_advice_is_incomplete_if_pods_were_left_out(
    monkeypatch: pytest.MonkeyPatch, most: int, complete: bool
) -> None:
    monkeypatch.setattr(fitting_groups, "MAX_DELETED", most)
    seen: list[AnyEvent] = [NodeSeen(node=small_gangs.node("n0", 4))]
    seen += [PodSeen(pod=pod(f"other-{at}", {}, "n0")) for at in range(4)]
    seen.append(kinds.SIGS.observed(small_gangs.sigs("train", 2, namespace=small_clusters.NAMESPACE)))
    seen += [PodSeen(pod=pod(f"train-{at}", {SIGS_LABEL: "train"})) for at in range(4)]
    answer = advice(projections.project_all(EMPTY, seen), ["pods"])
    assert ({change.cost for change in answer.changes}, answer.complete) == ({2}, complete)
