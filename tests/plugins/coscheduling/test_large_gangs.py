"""What gangs with many members cost: those of others, and the views of all."""

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model
from app.framework import pipeline
from app.plugins.coscheduling import admission, endpoints, gang_model, gangs, membership, options
from app.plugins.coscheduling.membership import GangKey
from app.verbs.explain import explanations, pending_groups
from tests.support.decisions import call_counts, small_gangs

KEY = GangKey(gang_model.KOORDINATOR, "x", "train")
BEYOND = "has more than 1,000 members; no more are placed together"


@pytest.mark.scenario("CS-22")
def test_a_gang_beyond_the_limit_is_refused_at_a_cost_that_does_not_grow_with_it() -> None:
    looks = []
    for count in (1_100, 1_700):
        members = small_gangs.gang("train", count, minimum=2)
        small = small_gangs.Cluster(small_gangs.node("n1", 2_000), *members)
        with call_counts.counted(membership, "of") as of:
            assert small.why(members[0]) == f"gang {KEY}: invalid: it {BEYOND}"
        looks.append(of.call_count)
    assert looks[0] == looks[1]


@pytest.mark.scenario("CS-22")
def test_a_group_beyond_the_limit_is_refused_before_its_gangs_are_read() -> None:
    groups = json.dumps(["x/one", "x/two"])
    one, two = (small_gangs.gang(name, 600, minimum=2, groups=groups) for name in ("one", "two"))
    small = small_gangs.Cluster(small_gangs.node("n1", 2_000), *one, *two)
    with call_counts.counted(gangs, "_found") as found:
        assert small.why(one[0]) == f"gang koordinator/x/one: invalid: its group {BEYOND}"
    assert found.call_count == 1


def test_a_gang_beyond_the_limit_is_explained_by_its_size_alone() -> None:
    members = small_gangs.gang("train", 1_001, minimum=2)
    small = small_gangs.Cluster(small_gangs.node("n1", 2_000), *members)
    found = explanations.presently(members[0], small.snapshot, small.plugins)
    assert [one.text for one in found.remarks] == [f"gang {KEY}: invalid: it {BEYOND}"]


STATES = ("waiting", "bound", "ended", "ending", "gated", "other", "seated")
"""``seated``: with a seat of another gang, not bound."""


def _state(name: str, number: int) -> model.Pod:
    pod = small_gangs.gang("train", number + 1, minimum=2)[number]
    changes: dict[str, dict[str, object]] = {
        "bound": {"node": "n1", "phase": "Running"},
        "ended": {"node": "n1", "phase": "Succeeded"},
        "ending": {"node": "n1", "phase": "Running", "terminating": True},
        "gated": {"gated": True},
        "other": {"labels": {options.LABEL: "another"}},
    }
    return msgspec.structs.replace(pod, **changes.get(name, {}))


@given(
    st.lists(st.sampled_from(STATES), max_size=8),
    st.integers(0, 9),
)
def test_the_size_of_a_gang_is_that_of_its_members_that_are_placed_or_can_be(
    states: list[str], asking: int
) -> None:
    pods = [_state(name, number) for number, name in enumerate(states)]
    small = small_gangs.Cluster(small_gangs.node("n1", 2_000), *pods)
    data = {gangs.NAME: {"gang": "koordinator/x/another"}}
    for pod, name in zip(pods, states, strict=True):
        if name == "seated":
            seat = model.Placement(pod, "n1", data=data)
            small.take(events.PlacementsCommitted(placements=(seat,), at="now"))
    asked = tuple(pods[asking : asking + 1])  # Of any state, or none.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gang_model, "LARGEST", 3)
        gang = gangs.find(small.snapshot, KEY, asked)
        assert gangs.beyond(small.snapshot, (KEY,), asked) == (gang is not None and gang.present > 3)


def test_options_of_members_that_do_not_define_the_gang_are_read_by_views_alone() -> None:
    first, *others = small_gangs.gang("train", 20)
    others = [
        msgspec.structs.replace(pod, annotations={**pod.annotations, options.WAITING: f"{number + 1}s"})
        for number, pod in enumerate(others)
    ]
    small = small_gangs.Cluster(small_gangs.node("n1", 20), first, *others)
    with call_counts.counted(options, "read") as read:
        assert small.planned(first) == "n1"
        assert read.call_count == 1
        gang = gangs.find(small.snapshot, KEY)
        assert gang is not None
        assert endpoints.conflicts(gang)[-1] == "and 9 more"
    assert read.call_count > len(others)


@pytest.mark.parametrize(
    ("minimum", "reason"),
    [(21, "20 of 21 members exist"), (20, "no capacity for 20 members"), (1_001, "invalid: ")],
    ids=["too few exist", "no capacity", "invalid"],
)
def test_members_that_are_refused_alike_are_filtered_once(minimum: int, reason: str) -> None:
    members = small_gangs.gang("train", 20, minimum=minimum)
    small = small_gangs.Cluster(small_gangs.node("n1", 8), *members)
    whys = {small.why(pod) for pod in members}
    waits = explanations.Waits(small.snapshot, small.plugins)
    with call_counts.counted(pipeline, "run_filter") as filtered:
        assert len({waits.of(pod) for pod in members}) == 1
        assert len(whys) == 1
        assert filtered.call_count == 1
        (group,) = pending_groups.groups(small.snapshot, small.plugins)
    assert (group.pods, reason in min(whys)) == (20, True), whys


def test_each_of_more_gangs_than_a_state_keeps_plans_of_is_planned_once_for_its_group() -> None:
    """By the uids, members of one gang are between those of all others."""
    count, size = 600, 3
    pods = [
        msgspec.structs.replace(pod, uid=f"{at}-{pod.uid}")
        for number in range(count)
        for at, pod in enumerate(small_gangs.gang(f"g{number:03}", size))
    ]
    small = small_gangs.Cluster(small_gangs.node("n1", size - 1), *sorted(pods, key=lambda pod: pod.uid))
    with call_counts.counted(admission, "_decided") as planned:
        assert len(pending_groups.groups(small.snapshot, small.plugins)) == count
    assert planned.call_count == 2 * count  # Alone for its class, and beside the other plugins.


@pytest.mark.parametrize("nominated", ["", "n7"])
def test_members_that_have_seats_are_found_and_planned_once_for_all(nominated: str) -> None:
    """Nominated members are found once more: in the state without their nominations."""
    members = small_gangs.gang("train", 20)
    members[3] = msgspec.structs.replace(members[3], nominated=nominated)
    small = small_gangs.Cluster(*[small_gangs.node(f"n{number}", 1) for number in range(20)], *members)
    times = 2 if nominated else 1
    with (
        call_counts.counted(gangs, "_found") as found,
        call_counts.counted(admission, "_decided") as decided,
    ):
        seats = {small.planned(pod) for pod in members}
        assert len(seats) == 20
        assert (found.call_count, decided.call_count) == (times, 1)
        small.gone(members[0])
        assert small.why(members[1]).endswith("19 of 20 members exist")
        assert (found.call_count, decided.call_count) == (2 * times, 2)


def test_pods_of_a_group_that_demands_nothing_are_of_the_class_of_others() -> None:
    pods = [small_gangs.pod(f"m{number}", group="basic") for number in range(3)]
    small = small_gangs.Cluster(small_gangs.node("n1"), small_gangs.native("basic", 0), *pods)
    (plugin,) = small.plugins.filters
    classes = [small.plugins.classifies[plugin.name].pod_class(pod, small.snapshot) for pod in pods]
    assert classes == [()] * 3


def test_a_member_is_decided_about_by_itself_where_members_are_not_indexed() -> None:
    (member,) = small_gangs.gang("train", 1, minimum=2)
    small = small_gangs.Cluster()
    small.snapshot = replace(small.snapshot, indexed=frozenset())
    small.see(small_gangs.node("n1"), member)
    assert small.why(member) == f"gang {KEY}: 1 of 2 members exist"


def test_an_asked_pod_that_differs_from_the_recorded_one_is_decided_by_itself() -> None:
    members = small_gangs.gang("train", 2, 8)
    small = small_gangs.Cluster(small_gangs.node("n1", 8), small_gangs.node("n2", 4), *members)
    assert "no capacity for" in small.why(members[0])
    smaller = msgspec.structs.replace(members[0], requests={"cpu": 4 * small_gangs.CORE})
    assert small.planned(smaller) == "n2"
    assert "no capacity for" in small.why(members[1])
