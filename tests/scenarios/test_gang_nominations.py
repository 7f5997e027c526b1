"""Gangs beside pods that kube-scheduler has nominated for a node: their room is held, as for single pods."""

import msgspec
import pytest

from app.domain import model
from app.plugins.coscheduling import admission
from tests.support.decisions.small_gangs import Cluster, gang, native, node, pod

NODES = ("n0", "n1", "n2")


def nominee(name: str, cpu: int = 8, *, priority: int = 20) -> model.Pod:
    """A pod that waits for its victims on the node."""
    return pod("nominee", cpu, nominated=name, priority=priority)


def members(count: int = 2, cpu: int = 4, **changed: object) -> list[model.Pod]:
    """Members of the native group g."""
    found = [pod(f"m{number}", cpu, group="g", priority=10) for number in range(count)]
    return [msgspec.structs.replace(one, **changed) for one in found]


def answers(small: Cluster, asked: list[model.Pod]) -> list[str]:
    return [small.planned(one) for one in asked]


@pytest.mark.parametrize("held", NODES)
def test_a_gang_that_fits_beside_a_nominated_pod_is_answered_the_same_node_in_every_call(held: str) -> None:
    asked = members()
    small = Cluster(*map(node, NODES), native("g", 2), *asked, nominee(held))
    first, second = answers(small, asked)
    assert first == second != ""
    assert first != held
    assert small.commit(asked[0], first) == {"m0": first, "m1": first}


@pytest.mark.parametrize(
    ("priority", "expected"), [(20, {"m0": "n1", "m1": "n2"}), (5, {"m0": "n1", "m1": "n0"})]
)
def test_a_bind_commits_no_member_to_the_room_of_a_more_important_nominated_pod(
    priority: int, expected: dict[str, str]
) -> None:
    asked = members()
    sizes = {"n0": 8, "n1": 4, "n2": 4}
    nodes = [node(name, cpu) for name, cpu in sizes.items()]
    small = Cluster(*nodes, native("g", 2), *asked, nominee("n0", priority=priority))
    assert small.commit(asked[0], "n1") == expected


def test_the_least_important_member_decides_which_nominated_pods_count() -> None:
    asked = gang("g", 2, 4)
    asked[0] = msgspec.structs.replace(asked[0], priority=30)
    small = Cluster(node("n0"), node("n1"), *asked, nominee("n0"))
    assert answers(small, asked) == ["n1", "n1"]


def test_a_nominated_member_of_a_gang_that_is_placed_with_it_has_no_seat() -> None:
    both = '["x/a","x/b"]'
    a, b = gang("a", 2, 4, groups=both), gang("b", 2, 4, groups=both)
    a[0] = msgspec.structs.replace(a[0], nominated="n0")
    small = Cluster(node("n0"), node("n1"), *a, *b)
    found = small.planned(b[0])
    assert len(small.commit(b[0], found)) == 4


def test_a_pod_beside_seats_counts_the_nominated_pods_of_their_node() -> None:
    asked = members(2, 2)
    small = Cluster(node("n0"), native("g", 2), *asked)
    assert small.commit(asked[0], "n0") == {"m0": "n0", "m1": "n0"}
    stranger = pod("stranger", 2)
    assert small.planned(stranger) == "n0"
    small.see(nominee("n0", 3))
    assert small.why(stranger) == admission.RESERVED
