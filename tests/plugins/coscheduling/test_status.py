"""What the controller does for gangs: statuses, Events, wake-ups, and seats that are released."""

import pathlib

import msgspec
import pytest
import yaml

from app.domain import events, model, snapshots
from app.framework import effects
from app.plugins.coscheduling import kinds, membership
from app.plugins.coscheduling.plugin import Coscheduling
from tests.support.decisions.small_gangs import ZONE, Cluster, gang, koordinator, native, node, pod, sigs

PLUGIN = Coscheduling()
DEFINITION = pathlib.Path(__file__).parents[2] / "e2e" / "manifests" / "podgroups.yaml"


def members(name: str, count: int, cpu: int = 1) -> list[model.Pod]:
    labels = {membership.SIGS_LABEL: name}
    return [pod(f"{name}{number}", cpu, labels=labels) for number in range(count)]


def everything(small: Cluster) -> list[effects.Effect]:
    return list(PLUGIN.reconcile(small.snapshot, effects.Changes()))


def after(small: Cluster, *happened: events.AnyEvent) -> list[effects.Effect]:
    before = small.snapshot
    small.take(*happened)
    return list(PLUGIN.reconcile(small.snapshot, effects.Changes(before, happened)))


def statuses(found: list[effects.Effect]) -> dict[str, object]:
    return {one.identity: one.status["phase"] for one in found if isinstance(one, effects.PatchStatus)}


def posted(found: list[effects.Effect]) -> list[tuple[str, str]]:
    return [(one.about.key, one.message) for one in found if isinstance(one, effects.PostEvent)]


def woken(found: list[effects.Effect]) -> list[str]:
    return [one.name for effect in found if isinstance(effect, effects.WakePods) for one in effect.pods]


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


def test_events_missed_without_a_leader_wake_what_has_capacity() -> None:
    small = Cluster(node("n1"), sigs("g", 2), *members("g", 2))
    assert woken(everything(small)) == []
    assert woken(list(PLUGIN.reconcile(small.snapshot, effects.Changes(missed=True)))) == ["g0", "g1"]


def committed(small: Cluster, pods: list[model.Pod]) -> events.PlacementsCommitted:
    """The event of the gang's commitment, applied."""
    before: snapshots.Snapshot = small.snapshot
    small.commit(pods[0], small.planned(pods[0]))
    made = tuple(small.snapshot.placements[one.uid] for one in pods)
    assert not before.placements
    return events.PlacementsCommitted(placements=made, at="now")


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


def released(one: model.Pod, node: str, cause: events.Cause = "refused") -> events.PlacementReleased:
    return events.PlacementReleased(
        uid=one.uid,
        namespace=one.namespace,
        name=one.name,
        node=node,
        reason="the API server refused",
        cause=cause,
    )


def given_up(found: list[effects.Effect]) -> set[model.Uid]:
    return {uid for one in found if isinstance(one, effects.ReleasePlacements) for uid in one.pods}


@pytest.mark.scenario("CS-4")
@pytest.mark.parametrize(
    ("mode", "bound", "others"),
    [
        ("Strict", False, {"uid-x-train0", "uid-x-train2"}),
        ("Strict", True, set()),
        ("NonStrict", False, set()),
    ],
)
def test_a_lost_seat_takes_the_others_with_it(mode: str, bound: bool, others: set[str]) -> None:
    pods = gang("train", 3, mode=mode)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    if bound:
        small.run(pods[0], "n1")
    found = after(small, released(pods[1], "n1"))
    assert given_up(found) == others
    (text,) = [message for _, message in posted(found) if "is lost" in message]
    assert "a seat on n1 is lost: the API server refused" in text


def test_a_seat_that_is_lost_right_after_the_commitment_takes_the_others_with_it() -> None:
    """A Binding that the API server refuses at once: both events are reconciled together."""
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    made = small.commitment(pods[1], "n1")
    committed = events.PlacementsCommitted(placements=made.placements, at="now", claims=made.claims)
    found = after(small, committed, released(pods[1], "n1"))
    assert given_up(found) == {"uid-x-train0", "uid-x-train2"}
    assert ["placed together" in text or "is lost" in text for _, text in posted(found)][-2:] == [True, True]


@pytest.mark.parametrize(
    ("minimum", "bound", "others"),
    [
        (3, False, {"uid-x-train0", "uid-x-train2"}),
        (3, True, set()),
        (2, False, set()),
    ],
)
def test_a_seat_whose_pod_is_gone_is_lost(minimum: int, bound: bool, others: set[str]) -> None:
    pods = gang("train", 3, minimum=minimum)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    if bound:
        small.run(pods[0], "n1")
    gone = events.PodGone(uid=pods[1].uid, namespace="x", name=pods[1].name)
    found = after(small, gone)
    assert given_up(found) == others
    (text,) = [message for _, message in posted(found) if "is lost" in message]
    assert "a seat on n1 is lost: its pod is gone" in text


def test_a_bound_member_that_is_gone_has_lost_no_seat() -> None:
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    bound = events.PodSeen(pod=msgspec.structs.replace(pods[1], node="n1"))
    gone = events.PodGone(uid=pods[1].uid, namespace="x", name=pods[1].name)
    found = after(small, bound, gone)
    assert not given_up(found)
    assert not any("is lost" in text for _, text in posted(found))


@pytest.mark.parametrize("bound", [False, True])
def test_a_lost_seat_takes_the_gangs_with_it_that_were_placed_together(*, bound: bool) -> None:
    both = '["x/a", "x/b"]'
    pods = [*gang("a", 2, groups=both), *gang("b", 2, groups=both)]
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    if bound:
        small.run(pods[3], "n1")
    found = after(small, released(pods[0], "n1"))
    assert given_up(found) == (set() if bound else {"uid-x-a1", "uid-x-b0", "uid-x-b1"})


@pytest.mark.parametrize(
    ("mode", "bound", "others"),
    [
        ("Strict", False, {"uid-x-train0", "uid-x-train2"}),
        ("Strict", True, set()),
        ("NonStrict", False, set()),
    ],
)
def test_a_seat_that_is_lost_without_a_leader_takes_the_others_with_it(
    mode: str, bound: bool, others: set[str]
) -> None:
    pods = gang("train", 3, mode=mode)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    if bound:
        small.run(pods[0], "n1")
    assert given_up(everything(small)) == set()
    small.take(released(pods[1], "n1"))
    found = everything(small)
    assert given_up(found) == others
    texts = [text for _, text in posted(found) if "have a seat" in text]
    lost = "gang koordinator/x/train: 2 of 3 members have a seat after a loss"
    assert texts == ([f"{lost}; 2 seats are released, because no member is bound"] if others else [])


def test_a_gang_that_is_lost_without_a_leader_takes_those_with_it_that_were_placed_together() -> None:
    both = '["x/a", "x/b"]'
    pods = [*gang("a", 1, groups=both), *gang("b", 2, groups=both)]
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    small.take(released(pods[0], "n1"))
    found = everything(small)
    assert given_up(found) == {"uid-x-b0", "uid-x-b1"}
    (text,) = [text for _, text in posted(found) if "have a seat" in text]
    assert text.startswith("gang koordinator/x/a: 0 of 1 members have a seat")


def test_a_member_that_goes_alone_after_another_has_run_is_no_rest_of_a_gang() -> None:
    job = model.Owner(kind="Job", name="train", uid="job")
    pods = [msgspec.structs.replace(one, owners=(job,)) for one in gang("train", 2)]
    ended = msgspec.structs.replace(pods[0], node="n1", phase="Succeeded")
    small = Cluster(node("n1"), pods[1], ended)
    small.commit(pods[1], "n1")
    assert small.placed() == {"train1": "n1"}
    assert given_up(everything(small)) == set()


def test_seats_on_a_node_that_is_gone_without_a_leader_are_released() -> None:
    pods = members("g", 2, 8)
    small = Cluster(node("n1"), node("n2"), sigs("g", 2), *pods)
    committed(small, pods)
    planned = next(one for one in small.snapshot.placements.values() if one.planned)
    small.take(events.NodeGone(name=planned.node, uid=f"uid-{planned.node}"))
    assert given_up(everything(small)) == {planned.pod.uid}


def test_a_seat_that_moves_is_not_lost() -> None:
    pods = gang("train", 2)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    assert given_up(after(small, released(pods[1], "n1", "superseded"))) == set()


def test_seats_on_a_node_that_is_gone_are_released() -> None:
    pods = members("g", 2, 8)
    small = Cluster(node("n1"), node("n2"), sigs("g", 2), *pods)
    committed(small, pods)
    planned = next(one for one in small.snapshot.placements.values() if one.planned)
    found = after(small, events.NodeGone(name=planned.node, uid=f"uid-{planned.node}"))
    assert given_up(found) == {planned.pod.uid}


def test_a_changed_pod_group_concerns_its_gang_alone() -> None:
    small = Cluster(node("n1"), sigs("g", 3), sigs("h", 3), *members("g", 2), *members("h", 2))
    found = after(small, kinds.SIGS.observed(sigs("g", 2)))
    assert {key for key, _ in posted(found)} == set()
    assert statuses(found) == {"x/g": "Scheduling"}
    assert woken(found) == ["g0", "g1"]
    assert {key for key, _ in posted(after(small, kinds.SIGS.observed(sigs("g", 5))))} == {"x/g"}
