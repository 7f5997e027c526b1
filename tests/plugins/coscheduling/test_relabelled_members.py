"""Members whose labels or annotations change: they leave one gang for another, or for none."""

import collections
import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from app.domain import events, model
from app.framework import effects
from app.plugins.coscheduling import gang_model, kinds, membership, options
from tests.support.decisions.gang_effects import (
    PLUGIN,
    after,
    committed,
    everything,
    given_up,
    members,
    posted,
)
from tests.support.decisions.small_gangs import CORE, Cluster, defined, gang, native, node, pod, sigs


def moved(one: model.Pod, name: str) -> model.Pod:
    """The member with the mark of another gang."""
    return msgspec.structs.replace(one, annotations={**one.annotations, options.NAME: name})


def released(one: model.Pod) -> events.PlacementReleased:
    """The seat of the pod on n1 is released."""
    return events.PlacementReleased(
        uid=one.uid, namespace="x", name=one.name, node="n1", reason="not bound", cause="unbound"
    )


def two_gangs() -> tuple[Cluster, list[model.Pod], list[model.Pod]]:
    """Gang a has its seats, and what is left takes two of the four members of gang b."""
    a, b = gang("a", 4), gang("b", 4, 4)
    small = Cluster(node("n1", 4), node("n2", 8), *a, *b)
    committed(small, a)
    assert small.why(b[0]) == "gang koordinator/x/b: no capacity for 4 members together"
    return small, a, b


@pytest.mark.parametrize("name", ["b", "c"])
def test_a_seat_counts_only_for_the_gang_that_it_was_committed_for(name: str) -> None:
    small, a, b = two_gangs()
    small.see(moved(a[3], name))
    assert defined(small, "b").seats == ()
    assert not defined(small, "b").satisfied
    assert small.why(b[0]) == "gang koordinator/x/b: no capacity for 4 members together"
    assert small.commit(b[0], "n2") == {}


def test_a_pod_that_has_left_its_gang_is_not_offered_the_seat_there() -> None:
    """Once bound to it, the pod would let members of its new gang go one by one."""
    small, a, _ = two_gangs()
    assert small.planned(a[3]) == "n1"
    assert small.why(moved(a[3], "b")) == "gang koordinator/x/b: no capacity for 4 members together"
    assert small.filter(moved(a[3], "")).kept == {"n1", "n2"}
    assert small.planned(a[3]) == "n1"


def test_a_pod_whose_binding_may_be_under_way_keeps_its_node() -> None:
    small, a, _ = two_gangs()
    assert small.planned(moved(a[0], "b")) == "n1"


def test_the_placement_of_a_pod_of_no_gang_is_no_seat_of_a_gang_that_it_joins() -> None:
    b = gang("b", 4, 4)
    alone = pod("p")
    small = Cluster(node("n1", 8), *b, alone)
    small.commit(alone, "n1")
    small.see(msgspec.structs.replace(b[0], uid=alone.uid, name=alone.name))
    assert defined(small, "b").seats == ()
    assert small.commit(b[1], "n1") == {}


def test_a_placement_without_data_of_the_plugin_is_a_seat_of_the_gang_of_its_pod() -> None:
    """As of one that was made before the plugin was enabled, or before the group of its pod was a gang."""
    three = gang("a", 3)
    small = Cluster(node("n1", 8), *three)
    bare = events.PlacementsCommitted(placements=(model.Placement(three[0], "n1", at="now"),), at="now")
    small.take(bare)
    small.gone(three[2])
    assert defined(small, "a").satisfied
    assert small.planned(three[1]) == "n1"
    small.see(moved(three[0], "b"))
    assert small.why(three[1]) == "gang koordinator/x/a: 1 of 3 members exist"


def test_a_bound_member_counts_for_the_gang_that_it_names() -> None:
    """As one that ran before the first extender was started."""
    small, a, _ = two_gangs()
    small.run(moved(a[3], "b"), "n1")
    assert defined(small, "b").satisfied


@pytest.mark.parametrize("name", ["b", ""])
def test_the_seat_of_a_member_that_leaves_its_gang_is_lost(name: str) -> None:
    small, a, _ = two_gangs()
    assert given_up(after(small, events.PodSeen(pod=a[3]))) == set()
    assert given_up(after(small, events.PodSeen(pod=moved(a[3], name)))) == {a[3].uid}
    assert given_up(everything(small)) == {one.uid for one in a}
    found = after(small, released(a[3]))
    assert given_up(found) == {one.uid for one in a[:3]}
    assert any(key == "x/a0" and "a seat on n1 is lost" in text for key, text in posted(found))


def test_a_binding_that_may_be_under_way_is_not_looked_up_when_its_pod_leaves_the_gang() -> None:
    """Its age decides when it is fenced, as that of any other."""
    small, a, _ = two_gangs()
    assert not small.snapshot.placements[a[0].uid].planned
    assert given_up(after(small, events.PodSeen(pod=moved(a[0], "b")))) == set()
    assert a[0].uid not in given_up(everything(small))


def test_a_seat_that_is_lost_at_the_bind_of_a_moved_member_is_reported_for_its_former_gang() -> None:
    """Its placement for the present version of the pod has the labels of now."""
    small, a, _ = two_gangs()
    other = moved(a[3], "b")
    small.see(other)
    seat = msgspec.structs.replace(small.snapshot.placements[other.uid], pod=other, planned=False)
    small.take(events.PlacementsCommitted(placements=(seat,), at="now"))
    found = after(small, released(other))
    assert given_up(found) == {one.uid for one in a[:3]}
    lost = [key for key, text in posted(found) if "a seat on n1 is lost" in text]
    assert lost == ["x/a0"]


def test_a_member_that_returns_to_its_gang_keeps_no_seat_alone() -> None:
    """It was placed again while it had the mark of another gang; no controller led."""
    small, a, _ = two_gangs()
    seat = msgspec.structs.replace(small.snapshot.placements[a[0].uid], pod=moved(a[0], "b"), planned=False)
    small.take(events.PlacementsCommitted(placements=(seat,), at="now"), *map(released, a[1:]))
    assert given_up(everything(small)) == {a[0].uid}


def test_the_seat_of_a_member_of_another_gang_is_not_free_for_min_resources() -> None:
    two, other = members("g", 2, 2), members("h", 1, 4)
    needs = {"cpu": 6 * CORE}
    small = Cluster(node("n1", 8), sigs("g", 2, resources=needs), sigs("h", 1), *two, *other)
    committed(small, other)
    small.see(of_group("g", other[0]))
    assert small.why(two[0]) == "gang sigs/x/g: the cluster has too little free for minResources in cpu"


def of_group(name: str, one: model.Pod) -> model.Pod:
    """The pod with the label of another PodGroup of the sigs, or without one."""
    return msgspec.structs.replace(one, labels={membership.SIGS_LABEL: name} if name else {})


def written(found: list[effects.Effect]) -> dict[str, object]:
    """The number of placed members in the status of each PodGroup that is written."""
    return {one.identity: one.status["scheduled"] for one in found if isinstance(one, effects.PatchStatus)}


@pytest.mark.parametrize(("name", "expected"), [("h", {"x/g": 2, "x/h": 1}), ("", {"x/g": 2})])
def test_the_status_of_the_group_that_a_member_leaves_is_written(
    name: str, expected: dict[str, object]
) -> None:
    run = [msgspec.structs.replace(one, node="n1", phase="Running") for one in members("g", 3)]
    small = Cluster(node("n1"), sigs("g", 3), sigs("h", 1), *run)
    assert written(after(small, events.PodSeen(pod=of_group(name, run[2])))) == expected


@pytest.mark.parametrize("name", ["h", ""])
def test_an_event_names_the_number_of_members_that_are_left(name: str) -> None:
    three = members("g", 3)
    small = Cluster(node("n1"), sigs("g", 3), sigs("h", 1), *three)
    found = posted(after(small, events.PodSeen(pod=of_group(name, three[2]))))
    assert found == [("x/g", "gang sigs/x/g: 2 of 3 members exist")]


@pytest.mark.parametrize("inner", ["inner", "jobs/inner", "jobs/inner/1"])
def test_a_change_of_the_native_group_inside_concerns_the_gang(inner: str) -> None:
    three = [msgspec.structs.replace(one, group=inner) for one in members("g", 3)]
    workload = gang_model.Workload(uid="uid-jobs", namespace="x", name="jobs", groups={"inner": 3})
    small = Cluster(node("n1"), sigs("g", 3), native("inner", 3), workload, *three)
    grown = msgspec.structs.replace(workload, groups={"inner": 4})
    changed = kinds.NATIVE.observed(native("inner", 4)), kinds.WORKLOADS.observed(grown)
    other = kinds.NATIVE.observed(native("other", 4))
    assert posted(after(small, other)) == []
    assert ("x/g", "gang sigs/x/g: 3 of 4 members exist") in posted(after(small, changed["/" in inner]))


def test_a_change_of_a_workload_concerns_its_gangs() -> None:
    two = [pod(f"w{number}", group="jobs/inner") for number in range(2)]
    workload = gang_model.Workload(uid="uid-jobs", namespace="x", name="jobs", groups={"inner": 2})
    small = Cluster(node("n1"), workload, *two)
    grown = msgspec.structs.replace(workload, groups={"inner": 3})
    found = posted(after(small, kinds.WORKLOADS.observed(grown)))
    assert found == [("x/w0", "gang native/x/jobs:inner: 2 of 3 members exist")]


class Scans(collections.UserDict[Any, Any]):
    """The index of labels, which counts how often it is gone through."""

    count = 0

    def __iter__(self) -> Iterator[Any]:
        self.count += 1
        return super().__iter__()


def test_workloads_that_change_together_cost_one_scan_of_the_labels() -> None:
    names = [f"jobs{number}" for number in range(5)]
    made = [
        gang_model.Workload(uid=f"uid-{name}", namespace="x", name=name, groups={"inner": 2})
        for name in names
    ]
    small = Cluster(node("n1"), *made, *(pod(name, group=f"{name}/inner") for name in names))
    before = small.snapshot
    grown = [kinds.WORKLOADS.observed(msgspec.structs.replace(one, groups={"inner": 3})) for one in made]
    small.take(*grown)
    index: Any = Scans(small.snapshot.labelled)
    index.count = 0
    changed = dataclasses.replace(small.snapshot, labelled=index)
    found = posted(list(PLUGIN.reconcile(changed, effects.Changes(before, tuple(grown)))))
    assert [key for key, _ in found] == [f"x/{name}" for name in names]
    assert index.count == 1


def test_members_are_found_by_their_annotation_whatever_label_has_its_key() -> None:
    """Koordinator reads no such label."""
    pods = [msgspec.structs.replace(one, labels={options.NAME: "other"}) for one in gang("train", 3)]
    small = Cluster(node("n1", 8), *pods)
    assert small.commit(pods[0], "n1") == {one.name: "n1" for one in pods}
    assert membership.all_keys(small.snapshot) == {membership.GangKey("koordinator", "x", "train")}
