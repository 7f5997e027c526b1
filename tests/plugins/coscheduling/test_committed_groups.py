"""The gangs that seats were committed with, once the pods that name them are gone."""

from collections.abc import Iterator

import msgspec
import pytest

from app.domain import events, model
from app.framework import plans
from app.plugins.coscheduling import membership, options
from app.plugins.coscheduling.gangs import NAME, Gang
from app.plugins.coscheduling.seats import commitments
from tests.support.decisions.gang_effects import after, committed, given_up
from tests.support.decisions.small_gangs import Cluster, defined, gang, node


def named(*names: str) -> Iterator[list[model.Pod]]:
    """Gangs that go together: a launcher that defines each, and a worker."""
    groups = "[" + ", ".join(f'"x/{name}"' for name in names) + "]"
    for at, name in enumerate(names):
        launcher, worker = gang(f"g{at}-", 2, groups=groups)
        mark = {options.NAME: name}
        yield [
            msgspec.structs.replace(launcher, annotations={**launcher.annotations, **mark}),
            msgspec.structs.replace(worker, annotations=mark),
        ]


def gone(one: model.Pod) -> events.PodGone:
    return events.PodGone(uid=one.uid, namespace=one.namespace, name=one.name)


def uids(*pods: model.Pod) -> set[model.Uid]:
    return {one.uid for one in pods}


@pytest.mark.scenario("CS-4", "CS-5")
@pytest.mark.parametrize(
    "names", [("a", "b"), ("a,1", "b"), tuple(f"{at:02}-{'n' * 250}" for at in range(20))]
)
def test_gangs_of_a_commitment_are_released_together_whatever_their_names(names: tuple[str, ...]) -> None:
    """Their launchers, which alone name the other gangs, are deleted."""
    group = list(named(*names))
    small = Cluster(node("n1", 64), *(one for pods in group for one in pods))
    committed(small, [one for pods in group for one in pods])
    listed = [one.data[NAME].get("together") for one in small.snapshot.placements.values()]
    every = [f"x/{name}" for name in sorted(names)]
    assert listed == [None if names == ("a", "b") else every] * len(listed)
    happened = [gone(launcher) for launcher, _ in group]
    assert given_up(after(small, *happened[1:])) == uids(group[0][0], *(worker for _, worker in group))
    assert given_up(after(small, happened[0])) == uids(*(worker for _, worker in group))


def test_a_comma_in_the_name_of_a_gang_joins_it_to_no_other() -> None:
    alone, other = gang("a", 2), gang("b", 2)
    alone = [
        msgspec.structs.replace(one, annotations={**one.annotations, options.NAME: "a,x/b"}) for one in alone
    ]
    small = Cluster(node("n1"), *alone, *other)
    small.commit(alone[0], "n1")
    small.commit(other[0], "n1")
    assert given_up(after(small, gone(alone[0]))) == uids(alone[1])
    assert commitments.placed_with(small.snapshot, defined(small, "b")) == (defined(small, "b"),)


def test_gangs_that_only_the_annotation_of_their_seats_names_are_released_together() -> None:
    """As in a log that an earlier version has written."""
    group = list(named("a", "b"))
    small = Cluster(node("n1"), *(one for pods in group for one in pods))
    committed(small, [one for pods in group for one in pods])
    (ids,) = {one.annotations[commitments.GROUP_ID] for one in small.snapshot.placements.values()}
    assert ids == "x/a,x/b"
    found = given_up(after(small, *(gone(launcher) for launcher, _ in group)))
    assert found == uids(group[0][1], group[1][1])


@pytest.mark.parametrize(
    ("names", "pods", "seats"),
    [
        (["x/a,b"], 2, 2),
        (["x/a,b"], 1000, 1000),
        ([f"x/{at:02}-{'n' * 250}" for at in range(100)], 1000, 40),
        ([f"x/{at:02}-{'n' * 250}{'ä' * 60}" for at in range(100)], 1000, 0),
        ([f"x/{at:02}-{'n' * 36}" for at in range(100)], 1000, 238),
        ([f"x/{at:02}-{'n' * 35}" for at in range(74)] + ["x/a,b"], 1000, 114),
    ],
)
def test_the_lists_of_a_commitment_are_limited(names: list[str], pods: int, seats: int) -> None:
    """The seats that have one are spread, and the others are found by these."""
    lists = commitments.lists(names, pods)
    assert (len(lists), lists.count(names), lists.count(())) == (pods, seats, pods - seats)
    if seats > 2:
        for launchers in range(2, 9):
            assert all(names in lists[first::launchers] for first in range(launchers))


@pytest.mark.parametrize(("names", "pods"), [(["x/a", "x/b"], 1000), (["x/a,b"], 1)])
def test_no_seat_has_a_list_if_the_annotation_names_each_gang_or_there_is_one_pod(
    names: list[str], pods: int
) -> None:
    assert commitments.lists(names, pods) == (None,) * pods


@pytest.mark.parametrize("gangs", [1, 75, 76, 95, 100])
@pytest.mark.parametrize("name", ["a,x/b", "a"])
@pytest.mark.parametrize("letter", ["n", "\x01"])
def test_what_gangs_keep_of_their_names_fits_into_a_commitment(gangs: int, name: str, letter: str) -> None:
    """Whatever the length of the annotation: otherwise every bind of theirs was refused.

    The log has six bytes for a control character.
    """
    names = [f"x/{at:02}-{letter * 36}" for at in range(gangs - 1)] + [f"x/{name}"]
    pods, gang = plans.MAX_PLACEMENTS, Gang(membership.GangKey("koordinator", "x", "n" * 253), minimum=1000)
    marks = commitments.marks(names, pods)
    annotations = pods * len(msgspec.json.encode(marks))
    data = ({NAME: commitments.kept(gang, listed)} for listed in commitments.lists(names, pods))
    assert annotations + sum(len(msgspec.json.encode(one)) for one in data) < plans.MAX_TOTAL


@pytest.mark.parametrize("first", [0, 1])
def test_a_seat_with_a_list_names_the_gangs_of_those_without(first: int) -> None:
    """These have the annotation, which would name a gang that is whole."""
    group, whole = list(named("a,1", "b")), gang("a", 2)
    small = Cluster(node("n1"), *(one for pods in group for one in pods), *whole)
    made = committed(small, [one for pods in group for one in pods])
    small.commit(whole[0], "n1")
    for one in made.placements:
        if one.pod.uid != group[first][1].uid:
            kept = {**one.data[NAME], "together": []}
            bare = msgspec.structs.replace(one, data={NAME: kept})
            small.take(events.PlacementsCommitted(placements=(bare,), at="now"))
    found = given_up(after(small, *(gone(launcher) for launcher, _ in group)))
    assert found == uids(group[0][1], group[1][1])
    keys = {membership.GangKey("koordinator", "x", name) for name in ("a,1", "b")}
    assert {one.key for one in commitments.placed_with(small.snapshot, defined(small, "b"))} == keys
