"""Gangs whose members have several sizes: the work of a plan is bounded, however the search ends."""

import msgspec
import pytest

from app.domain import model
from app.plugins.coscheduling.planner import arrangements, capacities
from tests.support.decisions import call_counts, small_gangs
from tests.support.decisions.small_gangs import CORE, RACK, ZONE

GPU = "example.com/gpu"


def training(minimum: int = 12) -> list[model.Pod]:
    """A gang of 4 parameter servers and 8 workers, which request a GPU each."""
    members = small_gangs.gang("g", 12, minimum=minimum)
    workers = [msgspec.structs.replace(one, requests={"cpu": CORE, GPU: 1}) for one in members[4:]]
    return [*members[:4], *workers]


def zoned(count: int, equipped: int = 0) -> list[model.Node]:
    """Nodes in three zones of ten racks, the first of them with a GPU each."""
    nodes = []
    for number in range(count):
        zone = number % 3
        labels = {ZONE: f"z{zone}", RACK: f"z{zone}-{number // 3 % 10}"}
        nodes.append(small_gangs.node(f"n{number:04}", 8, labels))
    amounts = {**nodes[0].allocatable, GPU: 1}
    return [
        *(msgspec.structs.replace(one, allocatable=amounts) for one in nodes[:equipped]),
        *nodes[equipped:],
    ]


@pytest.mark.parametrize("count", [60, 240, 960])
@pytest.mark.parametrize("equipped", [0, 7])
def test_a_refusal_for_one_size_tries_few_members_on_any_number_of_nodes(count: int, equipped: int) -> None:
    members = training()
    small = small_gangs.Cluster(*zoned(count, equipped), *members)
    with call_counts.counted(capacities.Capacities, "fits") as fits:
        assert not small.filter(members[0], [*small.snapshot.nodes]).kept
    assert fits.call_count <= 2 * len(members)


@pytest.mark.parametrize("count", [60, 240, 960])
def test_a_plan_over_many_racks_tries_few_members_on_any_number_of_nodes(count: int) -> None:
    members = training()
    small = small_gangs.Cluster(*zoned(count, 12), *members, layers=(ZONE, RACK))
    with call_counts.counted(capacities.Capacities, "fits") as fits:
        found = [small.planned(one) for one in members]
    assert len({name for name in found[4:] if name}) == 8
    assert 0 < fits.call_count <= 12 * len(members)


def test_all_searches_of_a_plan_share_one_limit() -> None:
    """Each size has enough slots: 20 members fit on 20 of the 25 nodes, and 12 on 6, but not together."""
    members = small_gangs.gang("g", 32)
    large = [msgspec.structs.replace(one, requests={"cpu": 3 * CORE}) for one in members[:20]]
    small_ones = [msgspec.structs.replace(one, requests={"cpu": 2 * CORE}) for one in members[20:]]
    nodes = [small_gangs.node(f"n{number:02}", 4, {ZONE: "z", RACK: "r"}) for number in range(25)]
    layers = ("region", ZONE, RACK)
    nodes = [msgspec.structs.replace(one, labels={**one.labels, "region": "x"}) for one in nodes]
    small = small_gangs.Cluster(*nodes, *large, *small_ones, layers=layers)
    with call_counts.counted(capacities.Capacities, "fits") as fits:
        assert not small.filter(large[0], [*small.snapshot.nodes]).kept
    assert arrangements.PLAN // 2 < fits.call_count <= 1.5 * arrangements.PLAN


def test_members_that_are_not_required_need_no_slots() -> None:
    members = training(minimum=4)
    small = small_gangs.Cluster(*zoned(6), *members)
    assert all(small.planned(one) for one in members[:4])
    assert not any(small.planned(one) for one in members[4:])


def test_a_domain_with_too_few_slots_for_one_size_is_left_out() -> None:
    """The zone with most slots has too few GPUs."""
    members = training()
    nodes = zoned(30)
    amounts = {**nodes[0].allocatable, GPU: 1}
    nodes = [
        msgspec.structs.replace(one, allocatable=amounts) if one.labels[ZONE] == "z1" or number < 18 else one
        for number, one in enumerate(nodes)
    ]
    small = small_gangs.Cluster(*nodes, *members)
    found = [small.planned(one) for one in members]
    assert {small.snapshot.nodes[name].labels[ZONE] for name in found} == {"z1"}
