"""Seats that are given up for others: what is left of their gang is released if those do not follow."""

from collections.abc import Iterable

import msgspec
import pytest

from app.domain import events, model
from app.framework import effects
from app.plugins.coscheduling.seats import losses
from tests.support.decisions.gang_effects import after, committed, given_up, posted
from tests.support.decisions.small_gangs import Cluster, gang, node
from tests.support.kube import fake_clock
from workers.controller.placements import joint_releases


def moves(one: model.Pod, node: str = "n1") -> events.PlacementReleased:
    """The first append of a bind that places the pod on another node."""
    reason = f"placed again; {node} was never bound"
    return events.PlacementReleased(
        uid=one.uid, namespace=one.namespace, name=one.name, node=node, reason=reason, cause="superseded"
    )


def seated(members: int = 3) -> tuple[Cluster, list[model.Pod]]:
    """A gang of so many with its seats on n1."""
    pods = gang("train", members)
    small = Cluster(node("n1"), node("n2"), *pods)
    committed(small, pods)
    return small, pods


def follows(small: Cluster, one: model.Pod, **changed: object) -> events.PlacementsCommitted:
    """The second append: the seat of the pod on n2."""
    seat = msgspec.structs.replace(small.snapshot.placements[one.uid], node="n2", planned=False)
    return events.PlacementsCommitted(placements=(msgspec.structs.replace(seat, **changed),), at="now")


class Controller:
    """The releases that a controller carries out of what happens in the cluster."""

    def __init__(self, small: Cluster) -> None:
        self.answers: list[effects.ReleasePlacements | None] = []
        """What was wanted when each release was due."""
        self._small = small
        self._clock = fake_clock.VirtualClock()
        self._releases = joint_releases.JointReleases(self._release, lambda: "1", self._clock)

    def happens(self, event: events.AnyEvent) -> None:
        for effect in after(self._small, event):
            if isinstance(effect, effects.ReleasePlacements):
                self._releases.submit(effect, "1")

    def passes(self, seconds: float) -> None:
        self._clock.now += seconds
        self._releases.run_once()

    def _release(self, renewed: joint_releases.Renewed) -> int:
        self.answers.append(renewed(self._small.snapshot))
        return 0


def release(found: Iterable[effects.Effect]) -> effects.ReleasePlacements:
    (one,) = [one for one in found if isinstance(one, effects.ReleasePlacements)]
    return one


@pytest.mark.scenario("CS-4")
def test_a_seat_that_moves_is_not_lost() -> None:
    small, pods = seated()
    found = after(small, moves(pods[1]), follows(small, pods[1]))
    assert (given_up(found), [text for _, text in posted(found) if "lost" in text]) == (set(), [])


@pytest.mark.scenario("CS-4")
def test_what_is_left_is_released_after_a_while_if_a_seat_is_given_up_and_none_follows() -> None:
    """As after an extender that is killed between its two appends."""
    small, pods = seated()
    new = follows(small, pods[1])
    found = after(small, moves(pods[1]))
    effect = release(found)
    assert (given_up(found), effect.after) == ({pods[0].uid, pods[2].uid}, losses.FOLLOWS)
    assert not any("lost" in text for _, text in posted(found))
    assert effect.renewed is not None
    assert effect.renewed(small.snapshot) == effect
    later = after(
        small,
        *(
            events.PlacementReleased(
                uid=one.uid, namespace="x", name=one.name, node="n1", reason=effect.reason, cause="unbound"
            )
            for one in (pods[0], pods[2])
        ),
    )
    assert given_up(later) == set()
    (text,) = [text for _, text in posted(later) if "lost" in text]
    assert text.endswith(f"2 seats are lost, the first on n1: {effect.reason}; no seats stay")
    small.take(new)
    assert effect.renewed(small.snapshot) is None


@pytest.mark.parametrize("then", ["placed", "bound", "another is bound", "gone"])
def test_a_seat_that_follows_later_keeps_the_others(then: str) -> None:
    small, pods = seated()
    new = follows(small, pods[1])
    effect = release(after(small, moves(pods[1])))
    match then:
        case "placed":
            small.take(new)
        case "bound":
            small.run(pods[1], "n2")
        case "another is bound":
            small.run(pods[0], "n1")
        case _:
            small.gone(pods[1])
    assert effect.renewed is not None
    assert (effect.renewed(small.snapshot) is None) == (then != "gone")


def test_a_seat_that_another_one_follows_is_not_awaited_for_one_that_is_lost() -> None:
    """While the second member moves, the first has its seat again, whatever the second one has."""
    small, pods = seated()
    new = follows(small, pods[0])
    effect = release(after(small, moves(pods[0])))
    small.take(new, moves(pods[1]))
    assert effect.renewed is not None
    assert effect.renewed(small.snapshot) is None


def test_a_seat_of_another_gang_is_none_that_follows() -> None:
    small, pods = seated()
    left = msgspec.structs.replace(pods[1], annotations={})
    new = follows(small, pods[1], pod=left, data={})
    effect = release(after(small, moves(pods[1])))
    small.take(new)
    assert effect.renewed is not None
    assert effect.renewed(small.snapshot) is not None


@pytest.mark.scenario("CS-4")
@pytest.mark.parametrize("follower", [1, 3])
def test_each_of_several_seats_that_move_is_awaited(follower: int) -> None:
    """Two move at once, also where what is left beside each are the same seats."""
    small, pods = seated(4)
    new = [follows(small, one) for one in pods]
    controller = Controller(small)
    controller.happens(moves(pods[3]))
    controller.passes(losses.FOLLOWS - 5)
    controller.happens(moves(pods[1]))
    controller.happens(new[3])
    controller.passes(5)
    assert controller.answers == [None]
    controller.happens(moves(pods[3], "n2"))
    controller.happens(new[follower])
    controller.passes(losses.FOLLOWS)
    (found,) = filter(None, controller.answers)
    (missing,) = {1, 3} - {follower}
    assert set(found.pods) == {one.uid for one in pods} - {pods[missing].uid}


@pytest.mark.scenario("CS-4")
@pytest.mark.parametrize("first", [1, 3])
def test_a_seat_that_moves_again_has_its_whole_time_whatever_else_moves(first: int) -> None:
    """Another one has moved before, or moves at the same time."""
    small, pods = seated(4)
    new = [follows(small, one) for one in pods]
    controller = Controller(small)
    controller.happens(moves(pods[first]))
    controller.happens(new[first])
    controller.passes(losses.FOLLOWS - 1)
    controller.happens(moves(pods[1], "n2" if first == 1 else "n1"))
    controller.happens(moves(pods[3], "n2" if first == 3 else "n1"))
    controller.passes(losses.FOLLOWS - 1)
    assert controller.answers == []
    controller.happens(new[1])
    controller.happens(new[3])
    controller.passes(1)
    assert controller.answers == [None, None]
