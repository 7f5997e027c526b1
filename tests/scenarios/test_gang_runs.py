"""Scenarios of gangs some of whose members have ended: who still counts, and who goes alone."""

from collections.abc import Iterable

import msgspec
import pytest

from app.domain import model
from app.plugins.coscheduling import options
from tests.support.decisions.small_gangs import Cluster, defined, gang, native, node, pod


@pytest.mark.scenario("CS-15")
def test_gated_and_terminating_members_are_not_counted() -> None:
    four = gang("train", 4)
    gated = msgspec.structs.replace(four[3], gated=True)
    small = Cluster(node("n1"), *four[:3], gated)
    assert small.why(four[0]) == "gang koordinator/x/train: 3 of 4 members exist"
    small.see(four[3])
    assert small.planned(four[0]) == "n1"
    small.see(msgspec.structs.replace(four[2], terminating=True))
    assert small.why(four[0]) == "gang koordinator/x/train: 3 of 4 members exist"


@pytest.mark.scenario("CS-15")
@pytest.mark.parametrize("phase", ["Running", "Failed", "Succeeded"])
def test_members_of_a_deleted_run_do_not_let_those_of_the_next_go_alone(phase: str) -> None:
    """A kubelet reports the end of a pod before a deleted one is gone."""
    last = gang("train", 4)
    following = [msgspec.structs.replace(one, uid=f"{one.name}-2") for one in last]
    small = Cluster(node("n1"), *last)
    for one in last:
        small.run(one, "n1")
    small.see(*(msgspec.structs.replace(one, node="n1", phase=phase, terminating=True) for one in last))
    small.see(following[0])
    assert small.why(following[0]) == "gang koordinator/x/train: 1 of 4 members exist"
    assert small.commit(following[0], "n1") == {}
    for one in last:
        small.gone(one)
    small.see(*following[1:])
    assert small.planned(following[0]) == "n1"


@pytest.mark.scenario("CS-6", "CS-15")
def test_a_terminating_member_of_the_last_run_does_not_define_the_next() -> None:
    """Its minimum would let half of a larger gang be placed."""
    last = [
        msgspec.structs.replace(one, name=f"last-{one.name}", uid=f"last-{one.uid}")
        for one in gang("train", 2)
    ]
    created = "2026-01-02T00:00:00Z"
    following = [msgspec.structs.replace(one, created=created) for one in gang("train", 8)]
    small = Cluster(node("n1", 6), *last)
    for one in last:
        small.run(one, "n1")
    going = [msgspec.structs.replace(one, node="n1", phase="Running", terminating=True) for one in last]
    small.see(*going)
    assert defined(small).minimum == 2, "no other member defines it"
    small.see(*following)
    assert small.why(following[0]) == "gang koordinator/x/train: no capacity for 8 members together"
    assert small.commit(following[0], "n1") == {}


def of_job(job: str, pods: Iterable[model.Pod]) -> list[model.Pod]:
    """The pods as the Job creates them; without a Job, as a person does."""
    owners = (model.Owner(kind="Job", name=job, uid=job, controller=True),) if job else ()
    return [msgspec.structs.replace(one, owners=owners) for one in pods]


@pytest.mark.scenario("CS-15")
@pytest.mark.parametrize(("former", "latter"), [("first", "second"), ("first", ""), ("", "second"), ("", "")])
def test_finished_pods_of_an_earlier_run_do_not_let_members_of_the_next_go_alone(
    former: str, latter: str
) -> None:
    """A CronJob keeps the pods of its last Jobs, and gives each of them the name of the same gang."""
    following = of_job(latter, gang("train", 4))
    ended = [
        msgspec.structs.replace(
            one, name=f"last-{one.name}", uid=f"last-{one.uid}", node="n1", phase="Succeeded"
        )
        for one in of_job(former, gang("train", 4))
    ]
    small = Cluster(node("n1", 2), *ended, *following)
    assert [small.planned(one) for one in following] == [""] * 4
    reason = "gang koordinator/x/train: no capacity for 4 members together"
    assert {small.why(one) for one in following} == {reason}
    assert small.commit(following[0], "n1") == {}
    small.see(node("n2", 2))
    assert len(small.commit(following[0], small.planned(following[0]))) == 4


@pytest.mark.scenario("CS-16")
def test_a_member_that_a_job_makes_again_goes_alone_after_the_others_have_ended() -> None:
    four = of_job("first", gang("train", 4))
    small = Cluster(node("n1"), *four)
    placed = small.commit(four[0], "n1")
    for one in four:
        small.run(one, placed[one.name])
    small.see(*(msgspec.structs.replace(one, node="n1", phase="Succeeded") for one in four[:3]))
    small.gone(four[3])
    again = msgspec.structs.replace(four[3], name="again", uid="again")
    small.see(again)
    assert small.planned(again) == "n1"


def led(minimum: int, workers: int) -> list[model.Pod]:
    """The pods of one Job of which the first, the launcher, alone has the minimum of the gang."""
    first, *others = gang("train", 1 + workers, minimum=minimum)
    named = [msgspec.structs.replace(one, annotations={options.NAME: "train"}) for one in others]
    return of_job("first", [first, *named])


def ended(one: model.Pod, phase: str = "Succeeded") -> model.Pod:
    return msgspec.structs.replace(one, node="n1", phase=phase)


@pytest.mark.scenario("CS-6", "CS-16")
def test_a_member_that_has_ended_defines_the_gang_of_its_run() -> None:
    """The launcher has succeeded, and the Job creates a worker again."""
    launcher, *workers = led(3, 2)
    small = Cluster(node("n1"), ended(launcher), ended(workers[0], "Running"), workers[1])
    assert small.planned(workers[1]) == "n1"


@pytest.mark.scenario("CS-6")
def test_a_gang_is_protected_after_the_member_that_defines_it_has_ended() -> None:
    launcher, *workers = led(2, 2)
    small = Cluster(node("n1", 4), ended(launcher), *(ended(one, "Running") for one in workers))
    reason = "gang koordinator/x/train: 1 of 2 members would be left"
    assert small.veto(pod("asking", 4, priority=10), "n1", workers[0]) == reason


@pytest.mark.scenario("CS-6", "CS-20")
@pytest.mark.parametrize("done", [1, 2])
def test_the_members_that_still_run_are_protected_once_others_have_ended(done: int) -> None:
    """By preempt, and from a group of kube-scheduler's own."""
    four = of_job("first", gang("train", 4, 8))
    at = [msgspec.structs.replace(one, node=f"n{n}", phase="Running") for n, one in enumerate(four)]
    over = [msgspec.structs.replace(one, phase="Succeeded") for one in at[:done]]
    asked = [pod(f"m{number}", 8, group="g", priority=10) for number in range(2)]
    nodes = [node(f"n{number}", 8, unschedulable=number < done) for number in range(4)]
    small = Cluster(*nodes, native("g", 2), *over, *at[done:], *asked)
    reason = "gang koordinator/x/train: 3 of 4 members would be left"
    assert small.veto(pod("asking", 8, priority=10), at[3].node, at[3]) == reason
    assert small.veto(pod("asking", 8, priority=10), at[3].node, *at[done:]) is None
    assert not small.filter(asked[0], offered=True).kept
    # Of another run, they do not count: the gang is below its minimum.
    small.see(*of_job("before", over))
    assert small.veto(pod("asking", 8, priority=10), at[3].node, at[3]) is None
    assert small.filter(asked[0], offered=True).kept


@pytest.mark.scenario("CS-20")
def test_members_that_have_ended_take_no_protection_from_those_that_run() -> None:
    """A Job with more completions than its gang has members creates a pod again for each that has ended."""
    eight = of_job("first", gang("train", 8, 2, minimum=4))
    small = Cluster(node("n1"), *map(ended, eight[:4]), *(ended(one, "Running") for one in eight[4:]))
    reason = "gang koordinator/x/train: 3 of 4 members would be left"
    assert small.veto(pod("asking", 8, priority=10), "n1", small.snapshot.pods[eight[7].uid]) == reason


@pytest.mark.scenario("CS-6")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_member_that_has_ended_does_not_define_the_next_run(phase: str) -> None:
    """Two of its workers would go without the launcher, which may require more."""
    last, *_ = led(2, 2)
    last = msgspec.structs.replace(ended(last, phase), name="last", uid="last")
    launcher, *workers = of_job("second", led(4, 3))
    small = Cluster(node("n1"), last, *workers)
    assert "no member defines" in small.why(workers[0])
    small.see(launcher)
    assert defined(small).minimum == 4
    assert small.planned(workers[0]) == "n1"


@pytest.mark.scenario("CS-6")
def test_a_member_that_has_ended_defines_the_gang_if_no_other_can() -> None:
    """The Job creates its launcher again, with another minimum since its template was changed."""
    launcher, *workers = led(3, 2)
    again = msgspec.structs.replace(led(2, 2)[0], name="again", uid="again", created="2026-01-02T00:00:00Z")
    small = Cluster(node("n1"), ended(launcher, "Failed"), *workers)
    assert defined(small).minimum == 3
    small.see(again)
    assert defined(small).minimum == 2
    small.see(msgspec.structs.replace(again, terminating=True))
    assert defined(small).minimum == 2


@pytest.mark.scenario("CS-16")
@pytest.mark.parametrize(
    ("policy", "alone"), [("once-satisfied", True), ("only-waiting", False), ("waiting-and-running", True)]
)
def test_a_member_that_is_made_again_goes_by_the_match_policy(policy: str, alone: bool) -> None:
    four = gang("train", 4, match_policy=policy)
    small = Cluster(node("n1"), *four)
    placed = small.commit(four[0], "n1")
    for one in four:
        small.run(one, placed[one.name])
    small.gone(four[2])
    again = msgspec.structs.replace(four[2], uid="again")
    small.see(again)
    assert bool(small.planned(again)) == alone
    if not alone:
        counted = "1 of 4 members wait; those that run do not count (only-waiting)"
        assert small.why(again) == f"gang koordinator/x/train: {counted}"


@pytest.mark.parametrize(
    ("policy", "relied_on"),
    [
        ("once-satisfied", {"train0"}),
        ("only-waiting", set()),
        ("waiting-and-running", {"train0", "train1", "train2"}),
    ],
)
def test_a_plan_of_fewer_than_the_minimum_is_decided_again_when_others_lose_their_places(
    policy: str, relied_on: set[str]
) -> None:
    """Members that permitted it may end between the decision and the append."""
    four = gang("train", 4, match_policy=policy)
    small = Cluster(node("n1"), *four)
    for one in four[:3]:
        small.run(one, "n1")
    if policy == "only-waiting":
        more = msgspec.structs.replace(four[3], name="train4", uid="train4")
        small.see(*(msgspec.structs.replace(more, name=f"train{n}", uid=f"train{n}") for n in range(4, 7)))
    made = small.commitment(four[3], "n1")
    pods = {f"pod:{one.uid}": one.name for one in four[:3]}
    assert {pods[subject] for subject in made.subjects if subject in pods} == relied_on
    for one in four[:3]:
        before = small.snapshot.versions.get(f"pod:{one.uid}")
        small.gone(one)
        assert small.snapshot.versions.get(f"pod:{one.uid}") != before


@pytest.mark.parametrize("place", [0, 1])
def test_a_plan_of_the_whole_gang_relies_on_a_member_with_a_place_only_if_it_defines_the_gang(
    place: int,
) -> None:
    five = gang("train", 5, minimum=2)
    small = Cluster(node("n1"), *five)
    small.run(five[place], "n1")
    made = small.commitment(five[2], "n1")
    assert len(made.placements) == 4
    assert (f"pod:{five[place].uid}" in made.subjects) == (place == 0)
