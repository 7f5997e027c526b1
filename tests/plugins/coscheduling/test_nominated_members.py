"""Of equal members, those nominated for a node are planned there first (kube-scheduler's group cycle).

kube-scheduler asks about the nominated node of a member alone before it asks about others, and offers a node
to a member only beside all who are nominated for it.
"""

import random
from collections import Counter

import msgspec
import pytest

from app.domain import model
from app.plugins.coscheduling.planner import evictions, nominations
from tests.support.decisions import call_counts, group_evictions, scheduling_driver, small_gangs

GROUP = group_evictions.GROUP


def low(name: str, node: str, cpu: int = 4, group: str = "") -> model.Pod:
    return small_gangs.pod(name, cpu, node=node, group=group)


def members(*nominated: str) -> list[model.Pod]:
    """Members of half of a node, with the node that each is nominated for."""
    return [
        small_gangs.pod(f"m{number}", 4, group="g", priority=GROUP, nominated=node)
        for number, node in enumerate(nominated)
    ]


def cluster(nodes: int, minimum: int, *things: scheduling_driver.Thing) -> small_gangs.Cluster:
    return small_gangs.Cluster(
        *(small_gangs.node(f"n{number}") for number in range(nodes)),
        small_gangs.native("g", minimum),
        *things,
    )


def own(small: small_gangs.Cluster, asked: list[model.Pod]) -> list[str]:
    """What filter keeps of each member's nominated node, the only one offered."""
    return ["".join(small.filter(one, [one.nominated], offered=True).kept) for one in asked]


def test_no_two_members_are_kept_on_their_nominated_node_where_one_fits() -> None:
    """For the second one, kube-scheduler would evict a pod that has to stay with its gang."""
    asked = members("n0", "n0", "n1", "n1")
    stays = [low("stays", "n0", group="whole"), low("elsewhere", "n2", 8, group="whole")]
    small = cluster(3, 2, small_gangs.native("whole", 2), *stays, low("goes", "n1"), *asked)
    assert Counter(own(small, asked)) == {"n0": 1, "n1": 1, "": 2}


def test_beside_a_pod_that_has_to_stay_a_member_takes_no_seat_of_another_one() -> None:
    """Also if the plan has another node for it, which is not offered."""
    asked = members("n0", "n0", "n0")
    stays = [low("stays", "n0", group="whole"), low("elsewhere", "n1", group="whole")]
    small = cluster(3, 2, small_gangs.native("whole", 2), *stays, low("goes", "n2"), *asked)
    assert Counter(own(small, asked)) == {"n0": 1, "": 2}


def test_beside_pods_that_may_go_a_member_is_planned_wherever_it_is_offered() -> None:
    """As kube-scheduler has put others elsewhere before, in the same cycle."""
    asked = members("n0", "n0", "n0")
    small = cluster(3, 2, *(low(f"low{number}", f"n{number}") for number in range(3)), *asked)
    assert Counter(own(small, asked)) == {"n0": 3}


@pytest.mark.parametrize("minimum", [1, 4])
def test_each_member_is_kept_on_the_node_that_was_freed_for_it(minimum: int) -> None:
    asked = members("n1", "n0", "n1", "n0")
    there = [low("goes0", "n0", 8), low("goes1", "n1", 8)]
    small = cluster(2, minimum, *there, *asked)
    assert own(small, asked) == [one.nominated for one in asked]
    for one in there:
        small.gone(one)
    assert own(small, asked) == [one.nominated for one in asked]


def test_a_nomination_changes_a_plan_that_was_kept() -> None:
    asked = members("", "", "", "")
    small = cluster(2, 4, low("goes0", "n0", 8), low("goes1", "n1", 8), *asked)
    before = {one.uid: small.filter(one, ["n0", "n1"], offered=True).kept for one in asked}
    other = {one.uid: {"n0": "n1", "n1": "n0"}[min(before[one.uid])] for one in asked}
    now = [msgspec.structs.replace(one, nominated=other[one.uid]) for one in asked]
    for one in now:
        small.see(one)
    assert own(small, now) == list(other.values())


def test_nominated_members_have_one_plan() -> None:
    asked = members("n1", "n0", "n1", "n0")
    small = cluster(2, 4, low("goes0", "n0", 8), low("goes1", "n1", 8), *asked)
    with call_counts.counted(evictions.Evictions, "occupancies") as computed:
        assert "" not in own(small, asked)
    assert computed.call_count == 1


@pytest.mark.parametrize("seed", range(50))
def test_seats_change_among_equal_members_alone_and_go_to_the_nominated_ones(seed: int) -> None:
    dice = random.Random(seed)
    nodes = [f"n{number}" for number in range(dice.randint(1, 4))]
    equal = [[f"{name}{number}" for number in range(dice.randint(0, 6))] for name in "abc"]
    uids = [uid for each in equal for uid in each] + ["other"]
    seats = {uid: dice.choice(nodes) for uid in uids if dice.random() < 0.7}
    nominated = {uid: dice.choice([*nodes, "gone"]) for uid in uids if dice.random() < 0.5}
    found = nominations.preferred(seats, equal, nominated)
    assert found.get("other") == seats.get("other")
    for each in equal:
        had = Counter(seats[uid] for uid in each if uid in seats)
        assert Counter(found[uid] for uid in each if uid in found) == had
        for node in nodes:
            waiting = {uid for uid in each if nominated.get(uid) == node and found.get(uid) != node}
            others = [uid for uid in each if found.get(uid) == node != nominated.get(uid)]
            assert not (waiting and others), f"{waiting} wait for {node}, where {others} are"
    assert nominations.preferred(found, equal, nominated) == found
    if not nominated:
        assert found == seats
