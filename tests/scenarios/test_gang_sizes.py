"""Gangs of several sizes: of two minimums, of members of several sizes, and of multiples."""

import itertools
import json
from collections.abc import Sequence

import msgspec
import pytest

from app.plugins.coscheduling import membership
from tests.support.decisions.small_gangs import CORE, Cluster, gang, native, node, pod, sigs


@pytest.mark.scenario("CS-7")
def test_a_gang_whose_own_minimum_is_larger_waits_until_its_members_exist() -> None:
    four = [pod(f"m{number}", labels={membership.SIGS_LABEL: "g"}, group="g") for number in range(4)]
    small = Cluster(node("n1"), sigs("g", 4), native("g", 2), four[0])
    for number, one in enumerate(four[1:], start=1):
        assert small.why(four[0]) == f"gang sigs/x/g: {number} of 4 members exist"
        small.see(one)
    assert [small.planned(one) for one in four] == ["n1"] * 4
    assert sorted(small.commit(four[2], "n1")) == ["m0", "m1", "m2", "m3"]


RACK = "example.com/rack"


def rule(layer: str, *, must: bool = False, multiple: int = 1) -> str:
    """A network-topology-spec with one rule."""
    made = {
        "layer": layer,
        "strategy": "MustGather" if must else "PreferGather",
        "podCountMultiple": multiple,
    }
    return json.dumps({"gatherStrategy": [made]})


def planned(
    nodes: Sequence[tuple[str, int]], sizes: Sequence[int], least: int, spec: str, *, runs: str = ""
) -> dict[str, list[int]]:
    """The sizes of the members that each node gets. ``nodes``: rack and cores of each; ``runs``: the node of
    the last member, which runs.
    """
    members = gang(
        "g", len(sizes), minimum=least, network_topology_spec=spec, match_policy="waiting-and-running"
    )
    members = [
        msgspec.structs.replace(one, requests={"cpu": size * CORE})
        for one, size in zip(members, sizes, strict=True)
    ]
    if runs:
        members[-1] = msgspec.structs.replace(members[-1], node=runs, phase="Running")
    made = [node(f"n{at}", cores, {RACK: rack}) for at, (rack, cores) in enumerate(nodes)]
    small, found = Cluster(*made, *members, layers=()), dict[str, list[int]]()
    for one, size in zip(members, sizes, strict=True):
        if not one.node and (name := small.planned(one)):
            found.setdefault(name, []).append(size)
    return found


def test_the_domain_that_seats_enough_members_is_preferred_to_one_that_seats_the_first_ones() -> None:
    """The minimum is a number of members, whichever they are."""
    racks = [("a", 1), ("a", 2), ("a", 2), ("b", 5)]
    assert planned(racks, (3, 5, 2, 2), 2, rule(RACK, must=True)) == {"n1": [2], "n2": [2]}
    racks = [*(("a", cores) for cores in (8, 8, 1, 1, 1, 1)), *(("b", 8) for _ in range(3))]
    found = planned(racks, (8, 8, 8, 1, 1, 1, 1), 3, rule(RACK, must=True))
    assert sorted(itertools.chain(*found.values())) == [1, 1, 1, 1, 8, 8]


@pytest.mark.scenario("CS-11")
def test_an_incomplete_multiple_is_left_where_more_members_are_placed_so() -> None:
    """Two would complete that of n0, and the other two none."""
    found = planned(
        [("a", 3), ("a", 2), ("a", 3)], (1, 1, 1, 1, 1), 4, rule("NodeTopologyLayer", multiple=3), runs="n0"
    )
    assert found == {"n2": [1, 1, 1]}


@pytest.mark.scenario("CS-11")
def test_members_that_fit_in_multiples_are_placed_whatever_their_order() -> None:
    assert planned([("a", 4)], (3, 3, 1, 1), 1, rule("NodeTopologyLayer", multiple=2)) == {"n0": [3, 1]}


@pytest.mark.scenario("CS-11")
def test_members_of_several_sizes_use_all_nodes_of_a_domain_with_multiples() -> None:
    """Slots are an upper bound: a node that multiples seem to leave out has the last member."""
    found = planned([("a", 7), ("a", 1)], (5, 1, 1, 1), 4, rule(RACK, must=True, multiple=4))
    assert found == {"n0": [5, 1, 1], "n1": [1]}
