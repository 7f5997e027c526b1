"""Scenarios of gangs that belong to a group: they go together."""

import json

import msgspec
import pytest

from app.domain import events
from app.framework import cycles
from app.plugins.coscheduling import endpoints, options
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.coscheduling.seats import commitments
from tests.support.decisions.small_gangs import CORE, ZONE, Cluster, defined, gang, koordinator, node

RACK = "example.com/rack"


def gathered(layer: str) -> str:
    """A network-topology-spec that does not let a gang leave one domain of the layer."""
    return json.dumps({"gatherStrategy": [{"layer": layer, "strategy": "MustGather"}]})


@pytest.mark.scenario("CS-5")
def test_gangs_of_a_group_go_together() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    small = Cluster(node("n1"), *a, b[0])
    assert small.why(a[0]) == "gang koordinator/x/b: 1 of 2 members exist"
    small.see(b[1])
    assert sorted(small.commit(a[0], small.planned(a[0]))) == ["a0", "a1", "b0", "b1"]


@pytest.mark.scenario("CS-5")
@pytest.mark.scenario("CS-16")
@pytest.mark.parametrize("declared", [False, True], ids=["annotations", "PodGroups"])
@pytest.mark.parametrize("ended", ["succeeded", "deleted"])
def test_a_member_that_is_made_again_goes_without_gangs_of_its_group_that_have_ended(
    ended: str, declared: bool
) -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    objects = [koordinator(name, 2, options={options.GROUPS: both}) for name in "ab" if declared]
    small = Cluster(node("n1"), *objects, *a, *b)
    placed = small.commit(a[0], "n1")
    for one in (*a, *b):
        small.run(one, placed[one.name])
    for one in b:
        if ended == "succeeded":
            small.see(msgspec.structs.replace(one, node="n1", phase="Succeeded"))
        else:
            small.gone(one)
    small.gone(a[1])
    again = msgspec.structs.replace(a[1], uid="again")
    small.see(again)
    _, plan = endpoints.planned(Coscheduling(), small.snapshot, defined(small, "a"), cycles.ALONE)
    assert plan.seats == {"again": "n1"}
    assert small.commit(again, "n1") == {"a1": "n1"}


@pytest.mark.scenario("CS-5")
def test_a_gang_that_has_ended_waits_for_its_group_when_it_runs_again() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    small = Cluster(node("n1"), *a, *b)
    placed = small.commit(a[0], "n1")
    for one in (*a, *b):
        small.run(one, placed[one.name])
        small.gone(one)
    following = [msgspec.structs.replace(one, uid=f"{one.uid}-2") for one in (*a, *b)]
    small.see(*following[:3])
    assert small.why(following[0]) == "gang koordinator/x/b: 1 of 2 members exist"
    small.see(following[3])
    assert len(small.commit(following[0], "n1")) == 4


@pytest.mark.scenario("CS-5")
def test_a_later_member_leaves_the_node_that_is_held_for_another_gang_of_its_group() -> None:
    both = '["x/a", "x/b"]'
    first, *later = gang("a", 3, minimum=1, groups=both)
    (held,) = gang("b", 1, groups=both)
    held = msgspec.structs.replace(held, priority=10, nominated="n2")
    small = Cluster(*(node(f"n{number}", 1) for number in (1, 2, 3)), first, *later, held)
    small.run(first, "n1")
    shown = endpoints.planned(Coscheduling(), small.snapshot, defined(small, "a"), cycles.ALONE)[1]
    assert shown.seats == {later[0].uid: "n3"}
    assert [small.planned(one) for one in later] == ["n3", ""]
    assert small.filter(later[0]).assumed == ("x/b0",)
    assert small.commit(later[0], "n3") == {"a1": "n3"}
    assert small.planned(held) == "n2"


@pytest.mark.scenario("CS-5")
def test_a_supposed_placement_of_a_member_does_not_part_the_gangs_of_a_group() -> None:
    """Gangs of which no member has been placed have one plan: their nominations are not held beside it."""
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    b[0] = msgspec.structs.replace(b[0], nominated="n1")
    small = Cluster(node("n1", 4), *a, *b)
    small.take(events.placed(a[1], "n1"))
    assert small.filter(a[0]).assumed == ()
    assert small.planned(a[0]) == "n1"


@pytest.mark.scenario("CS-5")
def test_later_members_carry_the_id_of_their_group() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 4, minimum=2, groups=both), gang("b", 1, groups=both)
    small = Cluster(node("n1"), *a[:2], *b)
    placed = small.commit(a[0], "n1")
    for one in (*a[:2], *b):
        small.run(one, placed[one.name])
    small.see(*a[2:])
    made = small.commitment(a[2], "n1")
    ids = {one.annotations[commitments.GROUP_ID] for one in made.placements}
    assert ({one.pod.name for one in made.placements}, ids) == ({"a2", "a3"}, {"x/a,x/b"})


def test_gangs_that_are_placed_together_have_one_plan_whichever_pod_is_asked_about() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, 2, groups=both), gang("b", 3, 2, groups=both)
    small = Cluster(node("n0"), node("n1"), *a, *b)
    planned = [
        {one.pod.name: one.node for one in small.commitment(pod, small.planned(pod)).placements}
        for pod in (*a, *b)
    ]
    assert len(planned[0]) == 5
    assert planned == planned[:1] * 5
    assert [small.planned(pod) for pod in (*a, *b)] == [planned[0][pod.name] for pod in (*a, *b)]


@pytest.mark.parametrize("spare", [0, 20], ids=["all required", "some spare"])
def test_the_domain_with_the_members_that_all_gangs_need_is_taken_before_one_with_more_members(
    spare: int,
) -> None:
    """Zone a has capacity for more members, and none for the gang that needs a GPU."""
    both, rules = '["x/a", "x/b"]', gathered(ZONE)
    (driver,) = gang("a", 1, groups=both, network_topology_spec=rules)
    driver = msgspec.structs.replace(driver, requests={"cpu": CORE, "gpu": 1})
    workers = gang("b", 40 + spare, minimum=40, groups=both, network_topology_spec=rules)
    special = node("z0", 41, {ZONE: "z"})
    special = msgspec.structs.replace(special, allocatable={**special.allocatable, "gpu": 1})
    small = Cluster(node("a0", 100, {ZONE: "a"}), special, driver, *workers)
    placed = small.commit(driver, small.planned(driver))
    assert (len(placed), set(placed.values())) == (41, {"z0"})


@pytest.mark.scenario("CS-5")
@pytest.mark.parametrize("first", ["a", "b"])
def test_gangs_of_a_group_with_other_topology_rules_are_refused(first: str) -> None:
    """No plan would meet the rules of both."""
    both = '["x/a", "x/b"]'
    rules = {"a": RACK, "b": ZONE} if first == "a" else {"a": ZONE, "b": RACK}
    a, b = (gang(name, 2, groups=both, network_topology_spec=gathered(rules[name])) for name in "ab")
    small = Cluster(node("n1", 8, {RACK: "r1", ZONE: "z"}), *a, *b)
    for one in (*a, *b):
        assert small.why(one) == (
            f"gang koordinator/x/{one.name[0]}: gang x/b of its group names other topology rules"
        )


@pytest.mark.scenario("CS-5")
@pytest.mark.parametrize("bound", ["a", "b"])
def test_the_topology_rules_of_one_gang_apply_to_its_group(bound: str) -> None:
    both = '["x/a", "x/b"]'
    rules = {bound: gathered(RACK)}
    a, b = (gang(name, 2, groups=both, network_topology_spec=rules.get(name, "")) for name in "ab")
    small = Cluster(*(node(f"n{number}", 3, {RACK: f"r{number}"}) for number in (1, 2)), *a, *b)
    assert {small.why(one).partition(": ")[2] for one in (*a, *b)} == {
        f"no domain of {RACK} has capacity for 4 members"
    }
    small.see(node("n3", 4, {RACK: "r3"}))
    assert set(small.commit(a[0], small.planned(a[0])).values()) == {"n3"}


def test_min_resources_of_every_gang_that_is_placed_hold() -> None:
    """Also for a pod of another one: with 5 and 6 cores of 10 free, neither of them is enough."""
    both = '["x/a", "x/b"]'
    a, b = gang("a", 1, groups=both), gang("b", 1, groups=both)
    groups = [
        koordinator(name, 1, options={f"{options.PREFIX}groups": both}, resources={"cpu": cores * CORE})
        for name, cores in (("a", 5), ("b", 6))
    ]
    small = Cluster(node("n0", 10), *groups, *a, *b)
    for one, key in ((a[0], "a"), (b[0], "b")):
        assert small.why(one) == (
            f"gang koordinator/x/{key}: the cluster has too little free for minResources in cpu"
        )
    small.see(koordinator("b", 1, options={f"{options.PREFIX}groups": both}, resources={"cpu": 5 * CORE}))
    assert small.planned(a[0]) == small.planned(b[0]) == "n0"
