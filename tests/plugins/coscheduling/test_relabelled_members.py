"""Members whose labels or annotations change: they leave one gang for another, or for none."""

import msgspec
import pytest

from app.domain import events, model
from app.plugins.coscheduling import options
from tests.support.decisions.gang_effects import after, committed, everything, given_up, posted
from tests.support.decisions.small_gangs import Cluster, defined, gang, node, pod


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


def test_the_placement_of_a_pod_of_no_gang_is_no_seat_of_a_gang_that_it_joins() -> None:
    b = gang("b", 4, 4)
    alone = pod("p")
    small = Cluster(node("n1", 8), *b, alone)
    small.commit(alone, "n1")
    small.see(msgspec.structs.replace(b[0], uid=alone.uid, name=alone.name))
    assert defined(small, "b").seats == ()
    assert small.commit(b[1], "n1") == {}


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
