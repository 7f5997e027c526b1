"""What the plugins reserve for a pod is merged into one commitment, or refused, or reported as a defect."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.domain import events, model, node_sets, projections, snapshots, verdicts
from app.framework import capabilities, cycles, pipeline, plans, registry
from app.plugins.workload_policy import policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support import declared
from tests.support.decisions import commitments, fake_plugins, pod_sets

POD = model.Pod(uid="uid-p", namespace="ns", name="p")
NUMBERS: dict[str, Any] = {"z": 1}
Plan, Assignment = capabilities.Plan, capabilities.Assignment


def snapshot(*happened: events.AnyEvent, nodes: str = "abcd") -> snapshots.Snapshot:
    seen = [events.NodeSeen(node=model.Node(n, f"uid-{n}", labels={"role": "host"})) for n in nodes]
    return projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=(pod_sets.POD_SET,)), [*seen, *happened]
    )


def cycle(*happened: events.AnyEvent, pod: model.Pod = POD) -> cycles.Cycle:
    return cycles.cycle(pod, frozenset("a"), snapshot(*happened))


def reserving(
    made: capabilities.Plan | verdicts.Refusal, name: str = "One", **more: str
) -> fake_plugins.Reserving:
    return fake_plugins.Reserving(name=name, made=made, **more)


def refusal(*configured: capabilities.Plugin, of: cycles.Cycle | None = None) -> verdicts.Refusal:
    found = plans.commitment(registry.Registry(configured), of or cycle(), "a")
    assert isinstance(found, verdicts.Refusal), found
    return found


def made(*configured: capabilities.Plugin, of: cycles.Cycle | None = None) -> plans.Commitment:
    return commitments.of(registry.Registry(configured), of or cycle(), "a")


# -- one pod -------------------------------------------------------------------------------


def test_conditions_are_combined_and_the_lowest_ceiling_applies() -> None:
    found = made(
        reserving(Plan(subjects=("policy:ns/x",), ceilings={"k": 3, "l": 2**52 + 1})),
        reserving(Plan(subjects=("policy:ns/y",), ceilings={"k": 2, "m": -5}), name="Two"),
        reserving(Plan(subjects=("never",), ceilings={"k": 0}), name="Bored", label="other"),
    )
    assert found.ceilings == {"k": 2, "l": 2**52 + 1, "m": -5}
    pod, policies = (
        {"pod:uid-p", "node:a"},
        {"policies:ns", "policy:ns/x", "policy:ns/y", "quotas:all", "sigsquotas:all"},
    )
    assert set(found.subjects) == {*pod, *policies, "store:run"}
    assert found.placements == (model.Placement(POD, "a"),)


def test_what_plugins_decide_is_kept_by_plugin_and_written_together() -> None:
    one = Assignment(POD, "a", {"gpu": (0, 3), "share": 0.5}, {"one.example/gpu": "0,3"}, {"pool": "x"})
    two = Assignment(POD, "a", {"cpus": {"list": "0-3"}}, {"two.example/cpus": "0-3"})
    found = made(reserving(Plan((one,))), reserving(Plan((two,)), name="Two"))
    (placement,) = found.placements
    # As a reader of the log gets it: a tuple is a list.
    assert placement.data == {"One": {"gpu": [0, 3], "share": 0.5}, "Two": {"cpus": {"list": "0-3"}}}
    assert placement.annotations == {"one.example/gpu": "0,3", "two.example/cpus": "0-3"}
    assert (placement.labels, placement.planned) == ({"pool": "x"}, False)


def test_a_refusal_is_that_of_its_plugin_for_the_node() -> None:
    no = verdicts.Refusal("no cpus left", frozenset("abcd"))
    found = refusal(reserving(Plan()), reserving(no, name="Two"))
    assert (found.reason, found.plugin, found.nodes) == ("no cpus left", "Two", frozenset("a"))


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        (lambda: Assignment(POD, "b"), "plugin Two places pod ns/p on node b, not a"),
        (
            lambda: Assignment(POD, "a", annotations={"x/y": "2"}),
            "One and Two both set annotation x/y of pod",
        ),
        (lambda: Assignment(POD, "a", labels={"l": "1"}), "plugins One and Two both set label l of pod ns/p"),
        (lambda: Assignment(POD, "a", annotations={"x y": "2"}), "plugin Two sets an invalid annotation"),
        (lambda: Assignment(POD, "a", annotations=NUMBERS), "plugin Two sets an invalid annotation"),
        (lambda: Assignment(POD, "a", annotations={"z": "\ud800"}), "plugin Two sets an invalid annotation"),
        (lambda: Assignment(POD, "a", labels={"z": "a b"}), "plugin Two sets an invalid label"),
        (lambda: Assignment(POD, "a", labels={"z": "a" * 64}), "plugin Two sets an invalid label"),
        (lambda: Assignment(POD, "a", data={"z": object()}), "plugin Two has data that is not JSON"),
    ],
)
def test_a_defective_plan_is_reported_by_plugin_and_key(
    assignment: Callable[[], capabilities.Assignment], text: str
) -> None:
    one = Assignment(POD, "a", annotations={"x/y": "1"}, labels={"l": "1"})
    with pytest.raises(plans.InvalidPlan) as defect:
        made(reserving(Plan((one,))), reserving(Plan((assignment(),)), name="Two"))
    assert text in str(defect.value)


def test_a_plugin_decides_once_for_a_pod() -> None:
    twice = Assignment(POD, "a", data={"x": 1})
    with pytest.raises(plans.InvalidPlan, match="plans pod ns/p twice"):
        made(reserving(Plan((twice, twice))))


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_binding_has_at_most_64_kib_of_annotations_and_labels(beyond: int) -> None:
    """Counted in bytes, as the API server does: the last character has two of them."""
    rest = 64 * 1024 - len("x/y") - len("l" + "v") - 2 + beyond
    one = Assignment(POD, "a", annotations={"x/y": "a" * rest + "é"}, labels={"l": "v"})
    if not beyond:
        assert made(reserving(Plan((one,)))).placements[0].annotations == one.annotations
        return
    assert refusal(reserving(Plan((one,)))).reason == (
        "the annotations and labels that plugins set for pod ns/p have 65,537 bytes; the limit is 65,536"
    )


def test_data_has_at_most_64_kib() -> None:
    one = Assignment(POD, "a", data={"x": "a" * (64 * 1024)})
    assert "the data that plugins set for pod ns/p have" in refusal(reserving(Plan((one,)))).reason


# -- several pods --------------------------------------------------------------------------


def member(at: int, seat: str = "b", **labels: str) -> model.Pod:
    held = {pod_sets.POD_SET: "c", pod_sets.SEAT: seat, **labels}
    return model.Pod(uid=f"uid-{at}", namespace="ns", name=f"m-{at}", labels=held)


FIRST = member(0, "a")


def pod_set(*others: model.Pod, more: tuple[events.AnyEvent, ...] = ()) -> cycles.Cycle:
    seen = [events.PodSeen(pod=pod) for pod in (FIRST, *others)]
    return cycle(*seen, *more, pod=FIRST)


def test_all_waiting_members_are_placed_with_the_first() -> None:
    found = made(pod_sets.PodSets(), of=pod_set(member(1), member(2, "c")))
    assert [(one.pod.name, one.node, one.planned) for one in found.placements] == [
        ("m-0", "a", False),
        ("m-1", "b", True),
        ("m-2", "c", True),
    ]
    assert {"pod:uid-0", "pod:uid-1", "pod:uid-2", "node:a", "node:b", "node:c"} <= set(found.subjects)
    tickets = [one.annotations[pod_sets.TICKET].partition("-")[2] for one in found.placements]
    assert len(set(tickets)) == 3


def test_the_store_may_take_a_thousand_at_once_and_refuses_more() -> None:
    members = [member(at) for at in range(1, plans.MAX_PLACEMENTS)]
    assert len(made(pod_sets.PodSets(), of=pod_set(*members)).placements) == 1000
    reason = refusal(pod_sets.PodSets(), of=pod_set(*members, member(1000))).reason
    assert reason == "plugin PodSets places 1,001 pods at once; the limit is 1,000"


def policy(quota: int) -> events.ObjectObserved:
    selector = model.Selector({pod_sets.POD_SET: "c"})
    allocations = (policy_model.Allocation("host", quota),)
    return declared.observed(
        policy_model.WorkloadPolicy("uid", "ns", "quota", "role", selector, allocations, type="Required")
    )


@pytest.mark.parametrize("quota", [2, 3])
def test_the_quotas_of_others_hold_for_the_whole_plan(quota: int) -> None:
    """Each member is filtered where the others are placed: all of them together must fit."""
    of = pod_set(member(1), member(2), more=(policy(quota),))
    plugins = (pod_sets.PodSets(), WorkloadPolicy(enforce="selected"))
    if quota == 3:
        found = made(*plugins, of=of)
        assert found.ceilings == {"ns/quota|role=host": 3}
        assert "policy:ns/quota" in found.subjects
        assert len(found.placements) == 3
        return
    reason = refusal(*plugins, of=of).reason
    assert reason.startswith(
        "pod ns/m-1, which is placed with it, cannot be placed on its node: workload policy"
    )


@dataclass(frozen=True, slots=True)
class Numbering(fake_plugins.Idle):
    """Counts the pods of its node, and notes it for each pod."""

    name: str = "Numbering"

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan:
        count = sum(1 for _ in cycle.snapshot.on(node))
        return Plan((Assignment(cycle.pod, node, {"number": count}, {"numbering/at": str(count)}),))


def test_others_reserve_for_each_member_beside_the_others() -> None:
    found = made(pod_sets.PodSets(), Numbering(), of=pod_set(member(1, "a"), member(2, "b"), member(3, "a")))
    assert [one.data["Numbering"]["number"] for one in found.placements] == [0, 2, 0, 2]
    assert all({pod_sets.TICKET, "numbering/at"} == set(one.annotations) for one in found.placements)


@dataclass(frozen=True, slots=True)
class Planning(fake_plugins.Idle):
    """Places these pods beside every other."""

    name: str = "Planning"
    beside: tuple[capabilities.Assignment, ...] = field(default=())

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan:
        return Plan(self.beside)


OTHER = model.Pod(uid="uid-o", namespace="ns", name="o")
SEEN = events.PodSeen(pod=OTHER)


@pytest.mark.parametrize(
    "there",
    [(events.PodSeen(pod=replace_node),) for replace_node in (model.Pod("uid-o", "ns", "o", node="b"),)]
    + [(SEEN, events.placed(OTHER, "b"))],
    ids=["bound", "placed"],
)
def test_a_member_that_is_on_its_node_is_left_as_it_is(there: tuple[events.AnyEvent, ...]) -> None:
    plugin = Planning(beside=(Assignment(OTHER, "b"),))
    found = made(plugin, of=cycle(*there))
    assert [one.pod.uid for one in found.placements] == ["uid-p"]
    assert "pod:uid-o" in found.subjects


@pytest.mark.parametrize(
    ("happened", "why"),
    [
        ((), "it does not exist"),
        ((SEEN, events.PodGone("uid-o", "ns", "o")), "it does not exist"),
        ((SEEN, events.placed(OTHER, "c")), "it is on node c"),
        ((events.PodSeen(pod=model.Pod("uid-o", "ns", "o", node="c")),), "it is on node c"),
        (
            (events.PodSeen(pod=model.Pod("uid-o", "ns", "o", phase="Failed")),),
            "it is not waiting for a node",
        ),
        ((events.PodSeen(pod=model.Pod("uid-o", "ns", "o", terminating=True)),), "it is not waiting"),
        ((events.PodSeen(pod=model.Pod("uid-o", "ns", "o", gated=True)),), "it is not waiting for a node"),
    ],
)
def test_a_plan_with_a_pod_that_cannot_be_placed_is_refused_whole(
    happened: tuple[events.AnyEvent, ...], why: str
) -> None:
    found = refusal(Planning(beside=(Assignment(OTHER, "b"),)), of=cycle(*happened))
    assert found.reason.startswith(f"pod ns/o, which is placed with it, cannot be placed on its node: {why}")
    assert found.nodes == frozenset("a")


def test_two_plans_of_one_pod_on_different_nodes_are_a_defect() -> None:
    one, two = Planning(beside=(Assignment(OTHER, "b"),)), Planning("Two", beside=(Assignment(OTHER, "c"),))
    with pytest.raises(plans.InvalidPlan, match="plugin Two places pod ns/o on node c, not b"):
        made(one, two, of=cycle(SEEN))


def test_the_planner_of_a_pod_neither_filters_nor_reserves_for_it_again() -> None:
    @dataclass(frozen=True, slots=True)
    class Strict(Planning):
        name: str = "Strict"

        def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
            return verdicts.Refusal("never", cycle.candidates)

    found = made(Strict(beside=(Assignment(OTHER, "b"),)), of=cycle(SEEN))
    assert [one.pod.uid for one in found.placements] == ["uid-p", "uid-o"]
    kept = pipeline.run_filter(registry.Registry([Strict()]), cycle(SEEN), without={"Strict"})
    assert kept.refused == node_sets.NONE


def test_a_merge_leaves_the_snapshot_as_it_is() -> None:
    of = pod_set(member(1), member(2))
    before = dict(of.snapshot.placements)
    made(pod_sets.PodSets(), Numbering(), of=of)
    assert dict(of.snapshot.placements) == before == {}
    assert replace(of) == of
