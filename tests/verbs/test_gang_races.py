"""Gangs in several extender processes over one store: one commitment for each of them."""

from collections.abc import Mapping, Sequence
from concurrent import futures
from types import MappingProxyType
from typing import Any

import pytest

from app.domain import model
from app.framework import effects
from app.plugins.coscheduling import membership, options
from app.plugins.coscheduling.plugin import Coscheduling
from app.simulation import populations
from app.simulation.apiserver import faults
from app.store.server import embedded
from app.verbs import placer
from tests.support.campaigns import sizes
from tests.support.extender import bind_plays, replicas

NODES = tuple(f"n{number}" for number in range(5))


def prepared(shop: replicas.Cluster) -> None:
    """Five nodes with capacity for two members each."""
    for name in NODES:
        made = populations.node(name, {})
        made["status"]["allocatable"] = {"cpu": "2", "pods": "110"}
        shop.api.objects.create("nodes", made)


def gang(
    shop: replicas.Cluster,
    name: str,
    count: int,
    requests: Mapping[str, str] = MappingProxyType({"cpu": "1"}),
) -> list[model.Pod]:
    metadata = {"namespace": replicas.NAMESPACE, "name": name}
    shop.api.objects.create("sigspodgroups", {"metadata": metadata, "spec": {"minMember": count}})
    containers = [{"name": "c", "image": "app:1", "resources": {"requests": dict(requests)}}]
    return [
        shop.pod(f"{name}-{number}", {membership.SIGS_LABEL: name}, containers=containers)
        for number in range(count)
    ]


def attempted(one: model.Pod, replica: replicas.Replica) -> str:
    """The calls of kube-scheduler about a pod; the error, or the reason of filter."""
    answer = replica.filter(one)
    if not answer.trace.kept:
        return next(iter(answer.trace.reasons().values()))
    (node,) = answer.trace.kept
    return replica.bind(one, node)


def commitments(replica: replicas.Replica) -> list[int]:
    """The number of placements of each commitment that placed several."""
    found = []
    for entry in replica.store.log.read(0, limit=10_000):
        placements = getattr(entry.event, "placements", ())
        if len(placements) > 1:
            found.append(len(placements))
    return found


def running(shop: replicas.Cluster, members: Sequence[model.Pod]) -> int:
    return sum(shop.bound(one) != "" for one in members)


@pytest.mark.scenario("CS-3")
@pytest.mark.parametrize("attempt", range(12))
def test_of_two_gangs_of_sixty_percent_exactly_one_runs(
    store_server: embedded.Server, cluster: str, attempt: int
) -> None:
    race(store_server, f"{cluster}-{attempt}")


@pytest.mark.campaign
@pytest.mark.scenario("CS-3")
def test_in_very_many_races_exactly_one_of_two_gangs_runs(
    store_server: embedded.Server, cluster: str
) -> None:
    for attempt in range(sizes.of("RACES", 200)):
        race(store_server, f"{cluster}-{attempt}")


def race(store_server: embedded.Server, cluster: str) -> None:
    """Two gangs of which each needs more than half of the cluster are bound at the same time."""
    with replicas.cluster(store_server.url, cluster) as shop:
        prepared(shop)
        a, b = gang(shop, "a", 6), gang(shop, "b", 6)
        shop.see()
        each = [shop.replica(beside=(Coscheduling,)) for _ in range(2)]
        # Both are filtered before either is bound: their first members have a node in both processes.
        nodes = [
            next(iter(replica.filter(one).trace.kept))
            for replica, one in zip(each, (a[0], b[0]), strict=True)
        ]
        with futures.ThreadPoolExecutor(2) as pool:
            firsts = list(pool.map(lambda at: each[at].bind((a[0], b[0])[at], nodes[at]), (0, 1)))
        assert sorted(firsts)[0] == ""
        whole, other = (a, b) if firsts[0] == "" else (b, a)
        name = other[0].name.partition("-")[0]
        assert (
            firsts[firsts[0] == ""] == f"topolog: gang sigs/shop/{name}: no capacity for 6 members together"
        )
        assert commitments(each[0]) == [6]
        for number, one in enumerate(whole[1:]):
            assert attempted(one, each[number % 2]) == ""
        shop.see()
        assert {attempted(one, each[0]) for one in other} == {
            f"gang sigs/shop/{name}: no capacity for 6 members together"
        }
        assert (running(shop, whole), running(shop, other)) == (6, 0)
        for one in whole:
            shop.delete(one)
        shop.see()
        for number, one in enumerate(other):
            assert attempted(one, each[number % 2]) == ""
        assert running(shop, other) == 6


def test_a_member_of_a_group_that_preempts_is_answered_and_not_bound_before_the_others_are_gone(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        prepared(shop)
        containers = [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "2"}}}]
        low = [shop.pod(f"low-{name}", {}, containers=containers) for name in NODES]
        shop.see()
        one = shop.replica(beside=(Coscheduling,))
        for pod, name in zip(low, NODES, strict=True):
            assert one.bind(pod, name) == ""
        metadata = {"namespace": replicas.NAMESPACE, "name": "g"}
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        shop.api.objects.create("nativepodgroups", {"metadata": metadata, "spec": policy})
        group = {"podGroupName": "g"}
        members = [
            shop.pod(f"g-{number}", {}, containers=containers, schedulingGroup=group, priority=10)
            for number in range(2)
        ]
        shop.see()
        nodes = [next(iter(one.filter(member).trace.kept)) for member in members]
        assert len(set(nodes)) == 2
        refused = "topolog: gang native/shop/g: no capacity for 2 members together"
        assert one.bind(members[0], nodes[0]) == refused
        for pod in low:
            if shop.bound(pod) in nodes:
                shop.delete(pod)
        shop.see()
        assert [one.bind(*each) for each in zip(members, nodes, strict=True)] == ["", ""]
        assert commitments(one) == [2]


def test_a_plan_for_a_state_in_which_another_gang_was_committed_is_made_again(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        prepared(shop)
        a, b = gang(shop, "a", 6), gang(shop, "b", 6)
        shop.see()
        one, late = (shop.replica(beside=(Coscheduling,)) for _ in range(2))
        (node,) = one.filter(a[0]).trace.kept
        (other,) = late.filter(b[0]).trace.kept
        # Nothing that the second plan names has changed but the capacity of the nodes.
        late.context = replicas.with_state(late, replicas.Behind(late, looks=1))
        assert one.bind(a[0], node) == ""
        assert late.bind(b[0], other) == "topolog: gang sigs/shop/b: no capacity for 6 members together"
        assert commitments(one) == [6]


def test_a_plan_for_a_minimum_that_a_pod_no_longer_defines_is_made_again(
    store_server: embedded.Server, cluster: str
) -> None:
    """The pod that defines the gang is gated: it is not a part of the plan."""

    def demands(minimum: str) -> None:
        def change(found: dict[str, Any]) -> dict[str, Any]:
            found["metadata"]["labels"][options.MINIMUM_LABEL] = minimum
            return found

        shop.api.objects.change("pods", (replicas.NAMESPACE, "defines"), change)
        shop.see()

    with replicas.cluster(store_server.url, cluster) as shop:
        prepared(shop)
        shop.pod("defines", {options.LABEL: "g"}, schedulingGates=[{"name": "later"}])
        containers = [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}]
        members = [shop.pod(f"g-{n}", {options.LABEL: "g"}, containers=containers) for n in range(2)]
        demands("2")
        late = shop.replica(beside=(Coscheduling,))
        (node,) = late.filter(members[0]).trace.kept
        late.context = replicas.with_state(late, replicas.Behind(late, looks=1))
        demands("3")
        assert late.bind(members[0], node) == "topolog: gang koordinator/shop/g: 2 of 3 members exist"
        assert not late.snapshot().placements


@pytest.mark.scenario("CS-22")
def test_two_hundred_members_with_devices_are_one_entry_of_the_log(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        for number in range(100):
            made = populations.node(f"large-{number}", {})
            made["status"]["allocatable"] = {"cpu": "64", "pods": "110", "nvidia.com/gpu": "16"}
            shop.api.objects.create("nodes", made)
        shop.see()
        members = gang(shop, "wide", 200, {"cpu": "1", "nvidia.com/gpu": "8"})
        shop.see()
        one, other = (shop.replica(beside=(Coscheduling,)) for _ in range(2))
        assert attempted(members[7], one) == ""
        assert commitments(one) == [200]
        replayed = other.snapshot()
        assert replayed.placements == one.snapshot().placements
        used = [replayed.used(name)["nvidia.com/gpu"] for name in replayed.nodes if name.startswith("large")]
        assert used == [16] * 100


@pytest.mark.scenario("CS-18")
def test_another_replica_continues_what_was_committed(store_server: embedded.Server, cluster: str) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        prepared(shop)
        members = gang(shop, "a", 4)
        shop.see()
        one, other = (shop.replica(beside=(Coscheduling,)) for _ in range(2))
        (node,) = one.filter(members[2]).trace.kept
        request = placer.BindRequest(members[2].namespace, members[2].name, members[2].uid, node)
        # The process ends between the commitment and the Binding.
        placer.Placer(one.context, request, one.context.monotonic() + 3).ensure_placed()
        shop.touch(members[2])
        seats = {uid: made.node for uid, made in other.snapshot().placements.items()}
        assert len(seats) == 4
        for each in members:
            assert set(other.filter(each).trace.kept) == {seats[each.uid]}
            assert other.bind(each, seats[each.uid]) == ""
        assert commitments(other) == [4]


@pytest.mark.scenario("CS-4")
def test_a_refused_binding_costs_its_seat_alone(store_server: embedded.Server, cluster: str) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        prepared(shop)
        members = gang(shop, "a", 4)
        shop.see()
        one = shop.replica(beside=(Coscheduling,))
        assert attempted(members[0], one) == ""
        shop.api.faults.add(faults.FaultKind.FAIL, bind_plays.BINDING, status=403, times=1)
        assert attempted(members[1], one) != ""
        assert {made.pod.name for made in one.snapshot().placements.values()} == {"a-0", "a-2", "a-3"}
        assert attempted(members[1], one) == ""
        assert attempted(members[2], one) == ""
        assert attempted(members[3], one) == ""
        assert running(shop, members) == 4


@pytest.mark.scenario("CS-21")
def test_a_seat_ends_after_the_waiting_time(store_server: embedded.Server, cluster: str) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        prepared(shop)
        metadata = {"namespace": replicas.NAMESPACE, "name": "a"}
        spec = {"minMember": 3, "scheduleTimeoutSeconds": 30}
        members = gang(shop, "b", 3)
        shop.api.objects.remove("sigspodgroups", (replicas.NAMESPACE, "b"))
        shop.api.objects.create("sigspodgroups", {"metadata": metadata | {"name": "b"}, "spec": spec})
        shop.see()
        one = shop.replica(beside=(Coscheduling,))
        assert attempted(members[0], one) == ""
        assert attempted(members[1], one) == ""
        shop.see()
        assert one.settled(29) == 0
        assert [made.pod.name for made in one.snapshot().placements.values()] == ["b-2"]
        before = one.snapshot()
        assert one.settled(31) == 1
        assert not one.snapshot().placements
        released = tuple(entry.event for entry in one.store.log.read(before.position.offset))
        found = Coscheduling().reconcile(one.snapshot(), effects.Changes(before, released))
        (posted,) = (one for one in found if isinstance(one, effects.PostEvent))
        assert (posted.about.key, posted.reason) == (f"{replicas.NAMESPACE}/b", "GangLostSeat")
        assert posted.message.endswith("2 bound members stay")
        assert running(shop, members) == 2
        # The member that came too late goes alone: the gang was placed once.
        assert attempted(members[2], one) == ""
