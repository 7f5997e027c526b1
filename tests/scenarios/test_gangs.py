"""Scenarios of Coscheduling: who may go, and when. Nodes have 8 cores unless stated otherwise."""

from typing import Any

import msgspec
import pytest

from app.domain import events, model, projections
from app.plugins.coscheduling import admission, endpoints, membership
from app.plugins.coscheduling.seats import awaited
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.store.log import codecs
from tests.support.decisions import call_counts, small_quotas
from tests.support.decisions.small_gangs import RACK, ZONE, Cluster, defined, gang, native, node, pod, sigs


@pytest.mark.scenario("CS-1")
def test_nothing_goes_before_all_exist_and_the_first_bind_places_all() -> None:
    three = gang("train", 3)
    small = Cluster(node("n1"), node("n2"), *three[:2])
    for one in three[:2]:
        assert small.why(one) == "gang koordinator/x/train: 2 of 3 members exist"
    small.see(three[2])
    nodes = {one.name: small.planned(one) for one in three}
    assert all(nodes.values())
    assert small.placed() == {}
    assert small.commit(three[1], nodes["train1"]) == nodes
    assert small.placed() == nodes
    (own, *others) = sorted(small.snapshot.placements.values(), key=lambda one: one.planned)
    assert not own.planned
    assert all(one.planned for one in others)
    assert own.annotations == {
        "internal.scheduling.koordinator.sh/bind-gang-group-id": "x/train",
        "internal.scheduling.koordinator.sh/bind-gang-member-count": "3",
    }


@pytest.mark.scenario("CS-2")
def test_the_largest_set_goes_that_satisfies_the_minimum() -> None:
    nodes = [node(f"n{number}", 2) for number in range(5)]
    whole = gang("train", 6, 2)
    small = Cluster(*nodes, *whole)
    assert {small.why(one) for one in whole} == {
        "gang koordinator/x/train: no capacity for 6 members together"
    }
    part = gang("train", 6, 2, minimum=5)
    small = Cluster(*nodes, *part)
    placed = {one.name: small.planned(one) for one in part}
    assert placed.pop("train5") == ""
    assert small.why(part[5]) == "gang koordinator/x/train: left out of the plan"
    assert small.commit(part[0], placed["train0"]) == placed
    for one in part[:5]:
        small.run(one, placed[one.name])
    assert small.why(part[5]) == "gang koordinator/x/train: no capacity for 1 member"
    small.see(node("n6", 2))
    assert small.planned(part[5]) == "n6"


@pytest.mark.scenario("CS-3")
def test_the_gang_that_binds_first_is_whole_and_the_other_holds_nothing() -> None:
    a, b = gang("a", 4, 4), gang("b", 4, 4)
    small = Cluster(node("n1"), node("n2"), *a, *b)
    answers = [small.planned(one) for one in (a[0], b[0], a[1], b[1])]
    assert all(answers)
    placed = small.commit(b[1], answers[3])
    assert sorted(placed) == ["b0", "b1", "b2", "b3"]
    assert small.commit(a[0], answers[0]) == {}
    assert small.placed() == placed
    assert small.why(a[2]) == "gang koordinator/x/a: no capacity for 4 members together"


@pytest.mark.scenario("CS-6")
def test_the_oldest_member_that_can_defines_the_gang() -> None:
    first = gang("train", 1, minimum="two")[0]
    second = msgspec.structs.replace(gang("train", 2, minimum=2)[1], created="2026-01-02T00:00:00Z")
    small = Cluster(node("n1"), first)
    assert small.why(first).startswith("gang koordinator/x/train: no member defines")
    small.see(second)
    assert defined(small).minimum == 2
    assert small.planned(first) == "n1"
    small.gone(first)
    small.see(msgspec.structs.replace(first, uid="again"))
    assert defined(small).minimum == 2
    third = msgspec.structs.replace(gang("train", 3, minimum=5)[2], created="2026-01-03T00:00:00Z")
    small.see(third)
    assert defined(small).minimum == 2
    assert endpoints.conflicts(defined(small)) == ["pod x/train2 has other options"]


@pytest.mark.scenario("CS-7")
def test_the_size_is_the_larger_of_both_forms() -> None:
    four = [pod(f"m{n}", labels={membership.SIGS_LABEL: "g"}, group="g") for n in range(4)]
    small = Cluster(node("n1"), sigs("g", 2), native("g", 4), *four[:3])
    assert small.why(four[0]) == "gang sigs/x/g: 3 of 4 members exist"
    small.see(four[3])
    assert small.planned(four[0]) == "n1"
    small = Cluster(node("n1"), sigs("g", 4), native("g", 2), *four[:3])
    assert small.why(four[0]) == "gang sigs/x/g: 3 of 4 members exist"


@pytest.mark.scenario("CS-7")
@pytest.mark.parametrize(
    "over", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"phase": "Running", "terminating": True}]
)
def test_the_size_is_that_of_the_group_of_the_members_that_are_left(over: dict[str, Any]) -> None:
    """kube-scheduler has a group for each Job, and the pods of the last one are kept."""
    label = {membership.SIGS_LABEL: "g"}
    last = [pod(f"last{n}", node="n1", labels=label, group="last", **over) for n in range(8)]
    four = [pod(f"m{n}", labels=label, group="now", created="2026-01-02T00:00:00Z") for n in range(4)]
    groups = native("last", 8, topology_key=RACK), native("now", 4, topology_key=ZONE)
    small = Cluster(node("n1"), node("n2", labels={ZONE: "a"}), sigs("g", 3), *groups, *last, *four)
    assert small.planned(four[0]) == "n2"
    small.gone(four[3])
    assert small.why(four[0]) == "gang sigs/x/g: 3 of 4 members exist"


@pytest.mark.scenario("CS-14")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_members_of_several_sizes_are_packed_whatever_the_order_of_calls(order: tuple[int, ...]) -> None:
    members = gang("train", 3, 8)
    members[0] = msgspec.structs.replace(members[0], requests={"cpu": 1000})
    small = Cluster(node("n1", 9), node("n2", 8), *members)
    placed = {members[at].name: small.planned(members[at]) for at in order}
    assert placed["train0"] == "n1"
    assert {placed["train1"], placed["train2"]} == {"n1", "n2"}


@pytest.mark.scenario("CS-18")
def test_retries_answer_the_seats_of_the_commitment() -> None:
    four = gang("train", 4, 4)
    small = Cluster(*[node(f"n{n}") for n in range(8)], *four)
    placed = small.commit(four[2], small.planned(four[2]))
    small.see(node("n00", 100))
    assert {one.name: small.planned(one) for one in four} == placed
    # Another pod may not take the capacity of a seat.
    unrelated = pod("unrelated", 8)
    assert small.filter(unrelated).refused == set(placed.values())
    assert set(small.filter(unrelated).reasons().values()) == {admission.RESERVED}


def test_a_pod_beside_seats_is_not_refused_for_a_resource_that_no_seat_requests() -> None:
    """kube-scheduler has capacity of devices that the node does not list."""
    device = "example.com/gpu"
    two = gang("train", 2, 4)
    small = Cluster(node("n1", 12), *two)
    assert small.commit(two[0], "n1") == {"train0": "n1", "train1": "n1"}
    asked = pod("asks", requests={"cpu": 4000, device: 1})
    assert small.planned(asked) == "n1"
    assert small.why(msgspec.structs.replace(asked, requests={"cpu": 5000, device: 1})) == admission.RESERVED


def test_seats_beside_which_a_pod_fits_with_all_its_requests_are_not_read() -> None:
    two = gang("train", 2, 4)
    small = Cluster(node("n1", 12), *two)
    assert len(small.commit(two[0], "n1")) == 2
    with call_counts.counted(awaited, "_competing") as read:
        assert small.planned(pod("fits", 4)) == "n1"
        assert read.call_count == 0
        assert small.why(pod("large", 5)) == admission.RESERVED
    assert read.call_count


@pytest.mark.parametrize(("theirs", "kept"), [(1, ""), (0, "n1")])
def test_a_pod_takes_no_device_that_a_seat_requests(theirs: int, kept: str) -> None:
    two = [
        msgspec.structs.replace(one, requests={"cpu": 1000, "example.com/gpu": theirs})
        for one in gang("train", 2)
    ]
    small = Cluster(node("n1", allocatable={"cpu": 8000, "pods": 3, "example.com/gpu": 2}), *two)
    assert len(small.commit(two[0], "n1")) == 2
    assert small.planned(pod("asks", requests={"cpu": 1000, "example.com/gpu": 3})) == kept


def test_a_pod_takes_none_of_the_places_of_seats() -> None:
    two = gang("train", 2)
    small = Cluster(node("n1", allocatable={"cpu": 8000, "pods": 2}), *two)
    assert len(small.commit(two[0], "n1")) == 2
    assert small.why(pod("asks", 0)) == admission.RESERVED


@pytest.mark.scenario("CS-19")
def test_a_quota_limits_the_gang_as_a_whole() -> None:
    quota = small_quotas.quota("team", 0, 3)
    named = {"quota.scheduling.koordinator.sh/name": "team"}
    four = [msgspec.structs.replace(one, labels=named) for one in gang("train", 4)]
    small = Cluster(node("n1", 100), quota, *four, beside=(ElasticQuota(),))
    assert {small.why(one) for one in four} == {
        "gang koordinator/x/train: elastic quota team: no capacity in cpu"
    }
    assert small.commit(four[0], "n1") == {}
    smaller = [msgspec.structs.replace(one, labels=named) for one in gang("train", 4, minimum=2)]
    small = Cluster(node("n1", 100), quota, *smaller, beside=(ElasticQuota(),))
    assert len(small.commit(smaller[0], "n1")) == 3


def test_a_plan_does_not_outlive_the_nominated_pod_that_it_was_refused_for() -> None:
    cores = {"cpu": 2 * small_quotas.CORE}
    quota = namespace_quota.NamespaceQuota(uid="q", namespace="x", name="q", min=cores, max=cores)
    two = gang("train", 2)
    first = pod("first", priority=10, nominated="n1")
    small = Cluster(node("n1", 100), quota, *two, first, beside=(ElasticQuota(),))
    assert small.planned(two[0]) == ""
    small.gone(first)
    assert small.planned(two[0]) == "n1"


@pytest.mark.scenario("CS-22")
def test_a_gang_beyond_the_limit_is_invalid() -> None:
    many = gang("train", 1_001, minimum=2)
    small = Cluster(node("n1", 2_000), *many)
    assert small.why(many[0]) == (
        "gang koordinator/x/train: invalid: it has more than 1,000 members; no more are placed together"
    )
    small.gone(many[7])
    assert small.planned(many[0])


@pytest.mark.scenario("CS-22")
def test_a_gang_with_devices_is_one_commitment_and_its_replay_gives_the_same_sums() -> None:
    members = [
        msgspec.structs.replace(one, requests={"cpu": 1000, "nvidia.com/gpu": 8})
        for one in gang("train", 200)
    ]
    gpus = {"cpu": 64_000, "pods": 110, "nvidia.com/gpu": 16}
    small = Cluster(*[node(f"n{number:03}", allocatable=gpus) for number in range(100)], *members)
    before = small.snapshot
    made = small.commitment(members[7], small.planned(members[7]))
    committed = events.PlacementsCommitted(placements=made.placements, at="now", claims=made.claims)
    small.take(committed)
    assert len(small.placed()) == 200
    assert {small.snapshot.used(name)["nvidia.com/gpu"] for name in small.snapshot.nodes} == {16}
    replayed = projections.project(before, codecs.decode(codecs.encode(committed)))
    assert replayed.placements == small.snapshot.placements


@pytest.mark.scenario("CS-23")
def test_gangs_of_one_name_in_two_namespaces_are_unrelated() -> None:
    here, there = gang("train", 2), gang("train", 2, namespace="y")
    small = Cluster(node("n1"), *here, there[0])
    assert small.planned(here[0]) == "n1"
    assert small.why(there[0]) == "gang koordinator/y/train: 1 of 2 members exist"
    assert [one.namespace for one in defined(small).waiting] == ["x", "x"]


def test_pods_that_no_gang_concerns_are_not_refused() -> None:
    small = Cluster(node("n1"), native("basic", 0))
    assert not small.filter(pod("plain")).refused
    assert not small.filter(pod("of-basic", group="basic")).refused
    assert small.plugins.concerned(pod("plain"), small.snapshot) == ()


def test_a_pod_group_that_does_not_exist_is_named() -> None:
    one = pod("m", labels={membership.SIGS_LABEL: "absent"})
    assert Cluster(node("n1"), one).why(one) == "gang sigs/x/absent: pod group x/absent not found"


def test_nominated_members_are_planned_as_if_they_were_not() -> None:
    """kube-scheduler nominates members before it binds them; two passes must name one node."""
    four = gang("train", 4, 4)
    small = Cluster(*[node(f"n{n}") for n in range(3)], *four)
    nodes = {one.name: small.planned(one) for one in four}
    for one in four[:3]:
        small.see(msgspec.structs.replace(one, nominated=nodes[one.name]))
    assert {one.name: small.planned(one) for one in four} == nodes


def test_a_released_seat_is_planned_again() -> None:
    two = gang("train", 2, 8)
    small = Cluster(node("n1"), node("n2"), *two)
    placed = small.commit(two[0], small.planned(two[0]))
    small.run(two[0], placed["train0"])
    released: model.Pod = two[1]
    small.take(
        events.PlacementReleased(
            uid=released.uid,
            namespace="x",
            name=released.name,
            node=placed["train1"],
            reason="",
            cause="unbound",
        )
    )
    assert small.planned(two[1]) == placed["train1"]
