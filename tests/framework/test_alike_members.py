"""Plugins that sum are asked about one member of each kind in a commitment, as far as they assign nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from app.domain import declared_objects, events, model, projections, schema, snapshots, verdicts
from app.framework import capabilities, cycles, plans, registry
from tests.support.decisions import call_counts, fake_plugins, pod_sets

SIZE, JOINS = "size", "joins"


@dataclass(frozen=True, slots=True)
class Summing(fake_plugins.Summing):
    """Admits so many pods to each rack; the pods of one size are one class."""

    most: int = 9
    joining: tuple[capabilities.Assignment, ...] = field(default=())
    """What is placed beside a pod with the label ``joins``."""
    noting: bool = False
    """Whether something is noted for each pod."""

    def pod_class(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> tuple[str, bool]:
        return pod.labels.get(SIZE, ""), JOINS in pod.labels

    def summed_by(self, namespace: str, snapshot: snapshots.Snapshot) -> tuple[str, ...]:
        return ("rack",)

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        (name,) = cycle.candidates
        full = placed(cycle.snapshot, rack(cycle.snapshot, name)) >= self.most
        return verdicts.Refusal("full", cycle.candidates) if full else None

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan:
        if JOINS in cycle.pod.labels:
            return capabilities.Plan(self.joining)
        if self.noting:
            data = {"name": cycle.pod.name, "beside": sum(1 for _ in cycle.snapshot.on(node))}
            return capabilities.Plan((capabilities.Assignment(cycle.pod, node, data),))
        here = rack(cycle.snapshot, node)
        known = cycle.pod.uid in cycle.snapshot.pods
        size = cycle.pod.labels.get(SIZE, "")
        return capabilities.Plan(subjects=(f"size:{size}",), ceilings={f"{here} {known}": self.most})


@dataclass(frozen=True, slots=True)
class Indifferent(Summing):
    """Concerns no pod."""

    def interested(self, pod: model.Pod) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Consulting(pod_sets.PodSets):
    """Decides about the whole set before others are asked about its first pod."""

    def others(self, cycle: cycles.Cycle, nominated: Sequence[model.Pod]) -> Sequence[model.Pod]:
        return nominated

    def outdated(self, pod: model.Pod, placement: model.Placement) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Expecting(fake_plugins.Idle):
    """Expects a subject of each pod to stay as it is."""

    name: str = "Expecting"

    def reserve(self, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Plan:
        return capabilities.Plan(subjects=(f"own:{cycle.pod.name}",))


def rack(snapshot: snapshots.Snapshot, name: model.NodeName) -> str:
    return snapshot.nodes[name].labels["rack"]


def counted(
    pod: model.Pod, node: model.Node, _: declared_objects.Objects
) -> tuple[tuple[schema.CountKey, int], ...]:
    return ((f"racks|{node.labels['rack']}", 1),)


def annotated(
    pod: model.Pod, node: model.Node, objects: declared_objects.Objects
) -> tuple[tuple[schema.CountKey, int], ...]:
    return counted(pod, node, objects) if pod_sets.TICKET in pod.annotations else ()


SCHEMA = schema.Schema(counters=(schema.Counter("racks", 1, counted, pod_fields=()),))
"""A count of the pods in each rack."""


def placed(snapshot: snapshots.Snapshot, here: str) -> int:
    return snapshot.counts.get(f"racks|{here}", 0)


def member(number: int, seat: str, **labels: str) -> model.Pod:
    held = {pod_sets.POD_SET: "set", pod_sets.SEAT: seat, **labels}
    return model.Pod(uid=f"uid-{number}", namespace="ns", name=f"m-{number}", labels=held)


def commitment(
    plugin: Summing,
    *members: model.Pod,
    known: bool = True,
    more: tuple[Expecting, ...] = (),
    counted_by: schema.Schema = SCHEMA,
) -> plans.Commitment | verdicts.Refusal:
    """What is committed for the first member, with the others; ``known``: the state has the first."""
    seen: list[events.AnyEvent] = [
        events.NodeSeen(node=model.Node(name, f"uid-{name}", labels={"rack": at}))
        for name, at in (("a", "r0"), ("b", "r0"), ("c", "r1"))
    ]
    seen += [events.PodSeen(pod=pod) for pod in members[not known :]]
    empty = snapshots.empty(schema=counted_by, indexed=(pod_sets.POD_SET,))
    cycle = cycles.cycle(members[0], frozenset("a"), projections.project_all(empty, seen))
    return plans.commitment(registry.Registry([Consulting(), plugin, *more]), cycle, "a")


def test_no_state_with_the_members_is_made_that_no_plugin_reads() -> None:
    members = [member(number, "a") for number in range(3)]
    with call_counts.counted(projections, "project") as projected:
        made = commitment(Indifferent(), *members)
    assert isinstance(made, plans.Commitment)
    assert {one.pod.uid for one in made.placements} == {pod.uid for pod in members}
    assert projected.call_count == 0


def test_one_member_of_each_kind_is_asked_about_in_each_part() -> None:
    members = [member(number, "abc"[number % 3]) for number in range(8)]
    large = [member(number, "a", size="large") for number in (8, 9)]
    with call_counts.counted(Summing, "filter") as judged, call_counts.counted(Summing, "reserve") as asked:
        made = commitment(Summing(), *members, *large)
    assert isinstance(made, plans.Commitment)
    assert (judged.call_count, asked.call_count) == (3, 3)
    assert len(made.placements) == 10
    assert {f"pod:{pod.uid}" for pod in (*members, *large)} <= {*made.subjects}
    assert {"size:", "size:large"} <= {*made.subjects}
    assert made.ceilings == {"r0 True": 9, "r1 True": 9}


def test_members_that_plugins_sum_are_counted_and_not_placed() -> None:
    members = [member(number, "abc"[number % 3]) for number in range(8)]
    with call_counts.counted(projections, "project") as projected:
        made = commitment(Summing(), *members)
    assert isinstance(made, plans.Commitment)
    assert projected.call_count == 0
    crowded = commitment(Summing(most=5), *members)
    assert isinstance(crowded, verdicts.Refusal)


def test_every_member_that_is_assigned_something_is_asked_about() -> None:
    made = commitment(Summing(noting=True), *(member(number, "a") for number in range(4)))
    assert isinstance(made, plans.Commitment)
    noted = [one.data["Summing"] for one in made.placements]
    assert [one["name"] for one in noted] == ["m-0", "m-1", "m-2", "m-3"]
    assert [one["beside"] for one in noted] == [3, 3, 3, 3], "the others are not placed"


def test_every_member_is_asked_about_beside_a_plugin_that_does_not_sum() -> None:
    made = commitment(Summing(), *(member(number, "a") for number in range(4)), more=(Expecting(),))
    assert isinstance(made, plans.Commitment)
    assert {f"own:m-{number}" for number in range(4)} <= {*made.subjects}


def test_members_of_a_kind_are_asked_about_again_beside_pods_that_are_added() -> None:
    """The third adds a pod, so that the fourth is one too many, and the second was not."""
    added = model.Pod(uid="uid-9", namespace="ns", name="added")
    members = [member(0, "a"), member(1, "a"), member(2, "a", joins="yes"), member(3, "a")]
    found = commitment(Summing(most=4, joining=(capabilities.Assignment(added, "b"),)), *members, added)
    assert isinstance(found, verdicts.Refusal)
    assert found.reason == "pod ns/m-3, which is placed with it, cannot be placed on its node: full"
    assert isinstance(commitment(Summing(most=4), *members), plans.Commitment)


ANNOTATED = schema.Schema(
    counters=(schema.Counter("racks", 1, annotated, pod_fields=("annotations",)),),
)
"""A count of the pods in each rack to which something was assigned."""


@pytest.mark.parametrize(("most", "fits"), [(3, False), (4, True)])
def test_what_is_assigned_to_the_members_counts_for_each_of_them(most: int, fits: bool) -> None:
    members = [member(number, "a") for number in range(4)]
    made = commitment(Summing(most=most), *members, counted_by=ANNOTATED)
    assert isinstance(made, plans.Commitment) is fits


def test_a_nominated_member_counts_once() -> None:
    members = [member(number, "a") for number in range(3)]
    members[1] = msgspec.structs.replace(members[1], nominated="b")
    assert isinstance(commitment(Summing(most=3), *members), plans.Commitment)


def test_a_pod_that_the_state_does_not_have_stands_for_no_other() -> None:
    made = commitment(Summing(), *(member(number, "a") for number in range(3)), known=False)
    assert isinstance(made, plans.Commitment)
    assert made.ceilings == {"r0 True": 9, "r0 False": 9}
