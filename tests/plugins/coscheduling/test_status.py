"""What the controller does for gangs: statuses, Events and wake-ups."""

import pathlib

import msgspec
import pytest
import yaml

from app.domain import events, model
from app.framework import effects
from app.plugins.coscheduling import kinds
from tests.support.decisions.gang_effects import (
    PLUGIN,
    after,
    committed,
    everything,
    members,
    posted,
    woken,
)
from tests.support.decisions.small_gangs import ZONE, Cluster, gang, koordinator, native, node, pod, sigs

DEFINITION = pathlib.Path(__file__).parents[2] / "e2e" / "manifests" / "podgroups.yaml"


def statuses(found: list[effects.Effect]) -> dict[str, object]:
    return {one.identity: one.status["phase"] for one in found if isinstance(one, effects.PatchStatus)}


def running(count: int, of: int, phase: str = "Running") -> list[model.Pod]:
    all_of_them = members("g", of)
    return [
        msgspec.structs.replace(one, node="n1", phase=phase) if number < count else one
        for number, one in enumerate(all_of_them)
    ]


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        (members("g", 1), "Pending"),
        (members("g", 2), "Scheduling"),
        (running(1, 2), "Scheduling"),
        (running(2, 2, "Pending"), "Scheduled"),
        (running(2, 2), "Running"),
        (running(2, 2, "Succeeded"), "Finished"),
        ([*running(1, 2, "Failed")[:1], *running(2, 2)[1:]], "Failed"),
    ],
)
def test_the_phase_follows_from_the_members(pods: list[model.Pod], phase: str) -> None:
    assert statuses(everything(Cluster(node("n1"), sigs("g", 2), *pods))) == {"x/g": phase}


def test_the_status_is_that_of_the_run_that_waits() -> None:
    """A CronJob keeps the pods of its last Jobs."""
    ended = [msgspec.structs.replace(one, uid=f"last-{one.uid}") for one in running(2, 2, "Succeeded")]
    (found,) = [
        one
        for one in everything(Cluster(node("n1", 1), sigs("g", 2), *ended, *members("g", 2)))
        if isinstance(one, effects.PatchStatus)
    ]
    assert found.status == {"phase": "Scheduling", "scheduled": 0, "running": 0, "succeeded": 0, "failed": 0}


@pytest.mark.scenario("CS-23")
def test_the_status_counts_the_members_of_one_namespace() -> None:
    there = [
        msgspec.structs.replace(one, uid=f"other-{one.uid}", namespace="y", node="n1", phase="Running")
        for one in members("g", 3)
    ]
    small = Cluster(node("n1"), sigs("g", 2), sigs("g", 2, namespace="y"), *running(1, 2), *there)
    found = {one.identity: one.status for one in everything(small) if isinstance(one, effects.PatchStatus)}
    assert found["x/g"] == {"phase": "Scheduling", "scheduled": 1, "running": 1, "succeeded": 0, "failed": 0}
    assert found["y/g"]["running"] == 3


def test_the_status_has_no_field_that_the_definition_lacks() -> None:
    """The API server would drop it, and the next comparison write the status again."""
    definition = yaml.safe_load(DEFINITION.read_text())
    (version,) = definition["spec"]["versions"]
    known = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    job = model.Owner(kind="Job", name="train", uid="job")
    (owned,) = [msgspec.structs.replace(one, owners=(job,)) for one in running(1, 1)]
    (found,) = [
        one
        for one in everything(Cluster(node("n1"), sigs("g", 1), owned))
        if isinstance(one, effects.PatchStatus)
    ]
    written = {*found.status, *found.stamped, *(["observedGeneration"] if found.generation else [])}
    assert {"phase", "occupiedBy", "scheduleStartTime"} <= written <= known.keys()


def test_the_start_is_stamped_once_a_member_is_placed() -> None:
    for bound, stamped in ((0, ()), (1, ("scheduleStartTime",)), (2, ("scheduleStartTime",))):
        (found,) = [
            one
            for one in everything(Cluster(node("n1"), sigs("g", 2), *running(bound, 2)))
            if isinstance(one, effects.PatchStatus)
        ]
        assert found.stamped == stamped


def test_only_pod_groups_with_members_get_a_status_and_kube_schedulers_own_none() -> None:
    inner = [pod(f"i{number}", group="inner") for number in range(2)]
    other = [pod(f"k{number}", labels={"pod-group.scheduling.sigs.k8s.io": "k"}) for number in range(2)]
    small = Cluster(node("n1"), sigs("empty", 2), native("inner", 2), *inner, koordinator("k", 2), *other)
    assert statuses(everything(small)) == {"x/k": "PreScheduling"}


def test_an_event_names_what_is_missing_in_numbers() -> None:
    nodes = [
        msgspec.structs.replace(one, allocatable=one.allocatable | {"nvidia.com/gpu": gpus})
        for one, gpus in ((node("a", 8, {ZONE: "zone-a"}), 5), (node("b", 8, {ZONE: "zone-b"}), 1))
    ]
    eight = [
        msgspec.structs.replace(one, requests={"cpu": 1, "nvidia.com/gpu": 1}) for one in members("g", 8)
    ]
    (found,) = posted(everything(Cluster(*nodes, sigs("g", 8), *eight)))
    assert found == (
        "x/g",
        "gang sigs/x/g: no capacity for 8 members together:"
        " 6 of 8 seats in the cluster; nvidia.com/gpu 2 of 8 missing",
    )
    required = native("g", 8, topology_key=ZONE)
    (found,) = posted(
        everything(
            Cluster(*nodes, required, *[msgspec.structs.replace(one, labels={}, group="g") for one in eight])
        )
    )
    assert found[1] == (
        f"gang native/x/g: no domain of {ZONE} has capacity for 8 members:"
        " 5 of 8 seats in zone-a; nvidia.com/gpu 3 of 8 missing"
    )


def test_what_nominated_pods_hold_is_missing_in_events() -> None:
    first = pod("first", 8, priority=10, nominated="n1")
    small = Cluster(node("n0"), node("n1"), sigs("g", 2), first, *members("g", 2, 8))
    assert posted(everything(small)) == [
        (
            "x/g",
            "gang sigs/x/g: no capacity for 2 members together:"
            " 1 of 2 seats in the cluster; cpu 8 of 16 missing",
        )
    ]


def test_an_event_of_an_incomplete_gang_without_an_object_is_about_a_member() -> None:
    two = gang("train", 3)[:2]
    assert posted(everything(Cluster(node("n1"), *two))) == [
        ("x/train0", "gang koordinator/x/train: 2 of 3 members exist")
    ]


def test_members_are_woken_when_there_is_capacity_for_all_and_not_before() -> None:
    blocking = [pod(f"b{number}", 8, node=f"n{number}") for number in range(2)]
    small = Cluster(node("n0"), node("n1"), sigs("g", 2), *members("g", 2, 8), *blocking)
    assert woken(everything(small)) == []
    assert woken(after(small, gone(blocking[0]))) == []
    assert woken(after(small, gone(blocking[1]))) == ["g0", "g1"]
    assert woken(after(small, gone(pod("other")))) == []


def gone(one: model.Pod) -> events.PodGone:
    return events.PodGone(uid=one.uid, namespace=one.namespace, name=one.name)


def test_members_are_woken_when_the_last_one_exists() -> None:
    pods = members("g", 2)
    small = Cluster(node("n1"), sigs("g", 2), pods[0])
    assert woken(after(small, events.PodSeen(pod=pods[1]))) == ["g0", "g1"]
    assert woken(after(small, events.PodSeen(pod=msgspec.structs.replace(pods[1], unscheduled="x")))) == []


def test_the_members_of_all_gangs_that_are_placed_together_are_woken_when_the_last_one_exists() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    small = Cluster(node("n1"), *a, b[0])
    assert woken(after(small, events.PodSeen(pod=b[1]))) == ["a0", "a1", "b0", "b1"]
    found = after(small, gone(b[1]))
    assert posted(found) == [(key, "gang koordinator/x/b: 1 of 2 members exist") for key in ("x/a0", "x/b0")]
    found = after(small, gone(b[0]))
    assert posted(found) == [("x/a0", "gang koordinator/x/a: gang x/b of its group does not exist")]


def test_events_missed_without_a_leader_wake_what_has_capacity() -> None:
    small = Cluster(node("n1"), sigs("g", 2), *members("g", 2))
    assert woken(everything(small)) == []
    assert woken(everything(small, missed=True)) == ["g0", "g1"]


def test_an_event_names_what_was_placed() -> None:
    pods = members("g", 3)
    small = Cluster(node("n1", 2), node("n2", 2), sigs("g", 3), *pods)
    before = small.snapshot
    event = committed(small, pods)
    found = list(PLUGIN.reconcile(small.snapshot, effects.Changes(before, (event,))))
    assert posted(found) == [("x/g", "gang sigs/x/g: 3 members placed together, on 2 nodes")]


def test_what_others_lack_is_posted_again_when_a_gang_takes_capacity() -> None:
    pods = members("g", 2, 4)
    small = Cluster(node("n1", 8), node("n2", 4), sigs("g", 2), sigs("h", 4), *pods, *members("h", 4, 4))
    ((about, text),) = posted(everything(small))
    assert about == "x/h"
    assert text.endswith("3 of 4 seats in the cluster; cpu 4 of 16 missing")
    before, event = small.snapshot, committed(small, pods)
    found = list(PLUGIN.reconcile(small.snapshot, effects.Changes(before, (event,))))
    assert [text for key, text in posted(found) if key == "x/h"] == [
        "gang sigs/x/h: no capacity for 4 members together: 1 of 4 seats in the cluster; cpu 12 of 16 missing"
    ]


def test_a_changed_pod_group_concerns_its_gang_alone() -> None:
    small = Cluster(node("n1"), sigs("g", 3), sigs("h", 3), *members("g", 2), *members("h", 2))
    found = after(small, kinds.SIGS.observed(sigs("g", 2)))
    assert {key for key, _ in posted(found)} == set()
    assert statuses(found) == {"x/g": "Scheduling"}
    assert woken(found) == ["g0", "g1"]
    assert {key for key, _ in posted(after(small, kinds.SIGS.observed(sigs("g", 5))))} == {"x/g"}
