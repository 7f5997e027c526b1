"""Seats that are lost before a member of their gang is bound: which others are released with them."""

import msgspec
import pytest

from app.domain import events, model
from app.framework import effects
from app.plugins.coscheduling import kinds, options
from tests.support.decisions.gang_effects import after, committed, everything, given_up, members, posted
from tests.support.decisions.small_gangs import Cluster, gang, node, sigs


def released(one: model.Pod, node: str, cause: events.Cause = "refused") -> events.PlacementReleased:
    return events.PlacementReleased(
        uid=one.uid,
        namespace=one.namespace,
        name=one.name,
        node=node,
        reason="the API server refused",
        cause=cause,
    )


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


def test_what_is_given_up_is_computed_again_before_it_is_released() -> None:
    """A member that is bound keeps all others; so does the one that gets a seat again."""
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    found = after(small, released(pods[1], "n1"))
    (effect,) = [one for one in found if isinstance(one, effects.ReleasePlacements)]
    assert effect.renewed is not None
    assert effect.renewed(small.snapshot) == effect
    assert {f"pod:{one.uid}" for one in pods} < set(effect.subjects)
    lost = small.snapshot
    small.run(pods[0], "n1")
    assert effect.renewed(small.snapshot) is None
    small.snapshot = lost
    small.commit(pods[1], "n1")
    assert effect.renewed(small.snapshot) is None
    small.snapshot = lost
    small.take(released(pods[0], "n1"))
    again = effect.renewed(small.snapshot)
    assert again is not None
    assert again.pods == (pods[2].uid,)


def test_a_seat_that_is_lost_right_after_the_commitment_takes_the_others_with_it() -> None:
    """A Binding that the API server refuses at once: both events are reconciled together."""
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    made = small.commitment(pods[1], "n1")
    committed = events.PlacementsCommitted(placements=made.placements, at="now", claims=made.claims)
    found = after(small, committed, released(pods[1], "n1"))
    assert given_up(found) == {"uid-x-train0", "uid-x-train2"}
    assert ["placed together" in text or "is lost" in text for _, text in posted(found)][-2:] == [True, True]


def test_seats_that_are_lost_in_one_turn_are_one_event_and_one_release() -> None:
    pods = gang("train", 5)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    gone = events.PodGone(uid=pods[3].uid, namespace="x", name=pods[3].name)
    found = after(small, *(released(one, "n1") for one in pods[1:3]), gone)
    (effect,) = [one for one in found if isinstance(one, effects.ReleasePlacements)]
    assert set(effect.pods) == {pods[0].uid, pods[4].uid}
    (text,) = [message for _, message in posted(found) if "lost" in message]
    assert "3 seats are lost, the first on n1: the API server refused; what is left" in text


def test_the_number_of_seats_that_are_given_up_is_reported_once_they_are_released() -> None:
    """A member that is bound first keeps them: then no Event reports that they are lost."""
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    (text,) = [message for _, message in posted(after(small, released(pods[0], "n1"))) if "lost" in message]
    assert text.endswith("; what is left is released, unless a member is bound first")
    left = small.snapshot
    bound = events.PodSeen(pod=msgspec.structs.replace(pods[1], node="n1"))
    assert posted(after(small, bound)) == []
    small.snapshot = left
    (text,) = [text for _, text in posted(after(small, *(released(one, "n1") for one in pods[1:])))]
    assert text.endswith("2 seats are lost, the first on n1: the API server refused; no seats stay")


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


ENDED, DELETED = "its pod has ended", "its pod is being deleted"


@pytest.mark.parametrize(
    ("phase", "terminating", "reason"),
    [("Failed", False, ENDED), ("Failed", True, ENDED), ("Pending", True, DELETED)],
)
def test_a_seat_whose_pod_ends_before_it_is_bound_is_lost(
    phase: str, *, terminating: bool, reason: str
) -> None:
    """So does a pod without a node that is deleted while a finalizer of its Job holds it."""
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    ended = msgspec.structs.replace(pods[1], phase=phase, terminating=terminating)
    found = after(small, events.PodSeen(pod=ended), events.PodSeen(pod=ended))
    own = {pods[1].uid} if reason == DELETED else set()
    assert given_up(found) == {"uid-x-train0", "uid-x-train2", *own}
    (text,) = [message for _, message in posted(found) if "lost" in message]
    assert f"a seat on n1 is lost: {reason}; what is left is released" in text
    assert given_up(everything(small)) == {"uid-x-train0", "uid-x-train2", *own}
    gone = events.PodGone(uid=pods[1].uid, namespace="x", name=pods[1].name)
    for event in (events.PodSeen(pod=ended), released(pods[1], "n1", "unbound"), gone):
        assert not any("lost" in message for _, message in posted(after(small, event)))


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_member_that_ends_once_it_is_bound_has_lost_no_seat(phase: str) -> None:
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    found = after(small, events.PodSeen(pod=msgspec.structs.replace(pods[1], node="n1", phase=phase)))
    assert not any("lost" in text for _, text in posted(found))


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
    assert given_up(everything(small, missed=True)) == set()
    small.take(released(pods[1], "n1"))
    found = everything(small, missed=True)
    assert given_up(found) == others
    texts = [text for _, text in posted(found) if "have a seat" in text]
    lost = "gang koordinator/x/train: 2 of 3 members have a seat after a loss"
    assert texts == ([f"{lost}; what is left is released, unless a member is bound first"] if others else [])


def test_a_verification_releases_what_is_left_and_keeps_the_event_with_the_cause() -> None:
    """Of the Events of one object and reason, the latest alone is kept."""
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    small.take(released(pods[1], "n1"))
    found = everything(small)
    assert given_up(found) == {"uid-x-train0", "uid-x-train2"}
    assert not any("loss" in text for _, text in posted(found))


def test_a_gang_that_is_lost_without_a_leader_takes_those_with_it_that_were_placed_together() -> None:
    both = '["x/a", "x/b"]'
    pods = [*gang("a", 1, groups=both), *gang("b", 2, groups=both)]
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    small.take(released(pods[0], "n1"))
    found = everything(small, missed=True)
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


@pytest.mark.parametrize("match", ["once-satisfied", "only-waiting"])
def test_after_a_member_has_run_a_lost_seat_takes_none_with_it_that_goes_alone(match: str) -> None:
    """Two of a Job have ended, and two more wait: under once-satisfied each is placed for itself."""
    job = model.Owner(kind="Job", name="train", uid="job")
    four = gang("train", 4, minimum=2, match_policy=match)
    pods = [msgspec.structs.replace(one, owners=(job,)) for one in four]
    ended = [msgspec.structs.replace(one, node="n1", phase="Succeeded") for one in pods[:2]]
    small = Cluster(node("n1"), *ended, *pods[2:])
    small.commit(pods[2], "n1")
    assert small.placed() == {"train2": "n1", "train3": "n1"}
    found = after(small, released(pods[3], "n1"))
    assert given_up(found) == (set() if match == "once-satisfied" else {pods[2].uid})


def test_seats_on_a_node_that_is_gone_without_a_leader_are_released() -> None:
    pods = members("g", 2, 8)
    small = Cluster(node("n1"), node("n2"), sigs("g", 2), *pods)
    committed(small, pods)
    planned = next(one for one in small.snapshot.placements.values() if one.planned)
    small.take(events.NodeGone(name=planned.node, uid=f"uid-{planned.node}"))
    assert given_up(everything(small)) == {planned.pod.uid}


def test_a_seat_whose_pod_is_placed_for_another_gang_is_lost() -> None:
    """Its bind replaces the placement, and appends no release."""
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    seat = small.snapshot.placements[pods[1].uid]
    left = msgspec.structs.replace(seat, pod=msgspec.structs.replace(seat.pod, labels={}), data={})
    left = msgspec.structs.replace(left, pod=msgspec.structs.replace(left.pod, annotations={}))
    found = after(small, events.PlacementsCommitted(placements=(left,), at="now"))
    assert given_up(found) == {"uid-x-train0", "uid-x-train2"}
    (text,) = [message for _, message in posted(found) if "is lost" in message]
    assert "a seat on n1 is lost: the pod has left the gang of its seat" in text


def test_a_seat_that_is_placed_again_for_its_gang_is_not_lost() -> None:
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    seat = small.snapshot.placements[pods[1].uid]
    again = msgspec.structs.replace(seat, planned=False)
    found = after(small, events.PlacementsCommitted(placements=(again,), at="now"))
    assert (given_up(found), [text for _, text in posted(found) if "is lost" in text]) == (set(), [])


def test_seats_on_a_node_that_is_gone_are_released() -> None:
    pods = members("g", 2, 8)
    small = Cluster(node("n1"), node("n2"), sigs("g", 2), *pods)
    committed(small, pods)
    planned = next(one for one in small.snapshot.placements.values() if one.planned)
    found = after(small, events.NodeGone(name=planned.node, uid=f"uid-{planned.node}"))
    assert given_up(found) == {planned.pod.uid}


def gone(one: model.Pod) -> events.PodGone:
    return events.PodGone(uid=one.uid, namespace=one.namespace, name=one.name)


def led(*, mode: str = "Strict", groups: str = "") -> list[model.Pod]:
    """A launcher that alone defines the gang, and two workers."""
    launcher, *workers = gang("train", 3, mode=mode, groups=groups)
    named = {options.NAME: "train"}
    return [launcher, *(msgspec.structs.replace(one, annotations=named) for one in workers)]


@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_gang_whose_defining_pod_goes_is_released_by_the_minimum_of_its_commitment(
    mode: str, *, bound: bool, leaves: bool
) -> None:
    pods = led(mode=mode)
    small = Cluster(node("n1"), *pods)
    committed(small, pods)
    if bound:
        small.run(pods[1], "n1")
    event: events.AnyEvent = gone(pods[0])
    if leaves:
        small.see(msgspec.structs.replace(pods[0], annotations={}))
        event = released(pods[0], "n1")
    found = after(small, event)
    others = {pods[1].uid, pods[2].uid} if mode == "Strict" and not bound else set()
    assert given_up(found) == others
    assert any("a seat on n1 is lost" in text for _, text in posted(found))
    later = everything(small, missed=True)
    assert given_up(later) == others
    reported = any("2 of 3 members have a seat after a loss" in text for _, text in posted(later))
    assert reported == bool(others)


def test_the_gangs_of_the_commitment_are_released_once_the_pod_that_names_them_is_gone() -> None:
    groups = '["x/other", "x/train"]'
    pods, others = led(groups=groups), gang("other", 2, groups=groups)
    small = Cluster(node("n1"), *pods, *others)
    committed(small, [*pods, *others])
    left = {one.uid for one in (*pods[1:], *others)}
    found = after(small, gone(pods[0]))
    assert given_up(found) == left
    (effect,) = [one for one in found if isinstance(one, effects.ReleasePlacements)]
    assert effect.renewed is not None
    assert effect.renewed(small.snapshot) == effect
    assert {uid for one in everything(small) for uid in given_up([one])} == left
    small.run(others[0], "n1")
    assert effect.renewed(small.snapshot) is None


def test_a_gang_whose_pod_group_is_gone_is_released_by_the_minimum_of_its_commitment() -> None:
    pods = members("g", 3)
    small = Cluster(node("n1"), sigs("g", 3), *pods)
    committed(small, pods)
    assert given_up(after(small, kinds.SIGS.gone("x", "g", "uid-x-g"))) == set()
    assert given_up(everything(small)) == set()
    assert given_up(after(small, gone(pods[0]))) == {pods[1].uid, pods[2].uid}


def test_seats_that_are_committed_are_kept_when_the_minimum_is_raised() -> None:
    """No seat is lost: what was committed together is whole."""
    pods = members("g", 4)
    small = Cluster(node("n1"), sigs("g", 4), *pods)
    committed(small, pods)
    assert given_up(after(small, kinds.SIGS.observed(sigs("g", 5)))) == set()
    assert given_up(everything(small)) == set()
    assert given_up(after(small, gone(pods[0]))) == {one.uid for one in pods[1:]}


def test_seats_beyond_a_minimum_that_was_lowered_may_be_lost() -> None:
    pods = members("g", 4)
    small = Cluster(node("n1"), sigs("g", 4), *pods)
    committed(small, pods)
    small.take(kinds.SIGS.observed(sigs("g", 2)))
    assert [given_up(after(small, gone(one))) for one in pods[:3]] == [set(), set(), {pods[3].uid}]


def test_the_present_minimum_decides_about_seats_without_one() -> None:
    """As in a log that an earlier version has written."""
    pods = gang("train", 3)
    small = Cluster(node("n1"), *pods)
    placements = tuple(
        msgspec.structs.replace(one, data={"Coscheduling": {"gang": one.data["Coscheduling"]["gang"]}})
        for one in small.commitment(pods[0], "n1").placements
    )
    small.take(events.PlacementsCommitted(placements=placements, at="now"))
    assert given_up(everything(small)) == set()
    assert given_up(after(small, gone(pods[2]))) == {pods[0].uid, pods[1].uid}
