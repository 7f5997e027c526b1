"""Concurrent binds under elastic quotas: no replica overspends, whatever becomes of the Bindings."""

import random
from collections.abc import Callable
from concurrent import futures

import pytest

from app.domain import events, model, projections
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from app.simulation.apiserver import faults
from app.store.log import batches
from app.store.server import embedded
from tests.support.extender import bind_plays, replicas, small_shops
from tests.support.simulation.oracle import plain_fold, quota_law
from tests.support.store import materialised

NODES = tuple(f"n{number}" for number in range(4))
PODS = 40


def one_quota(shop: replicas.Cluster) -> list[model.Pod]:
    """Pods of a Koordinator quota of 10 cores."""
    small_shops.quota(shop, "q", 10)
    return [small_shops.pod(shop, f"p{number}", "q") for number in range(PODS)]


def namespaces(shop: replicas.Cluster) -> list[model.Pod]:
    """Pods of three namespaces that are guaranteed 10 cores together; two of them may borrow."""
    for namespace, least, most in (("a", 2, 6), ("b", 3, 9), ("c", 5, 5)):
        small_shops.namespace_quota(shop, namespace, least, most)
    return [small_shops.pod(shop, f"p{number}", namespace="abc"[number % 3]) for number in range(PODS)]


RACES = {
    "a quota": (
        one_quota,
        {
            "quota||q|cpu": 10_000,
            "quota||q|memory": 10 * 2**24,
            "quota||q|pending|cpu": 30_000,
        },
    ),
    "quotas of namespaces": (
        namespaces,
        {"sigsquota||cpu": 10_000, "sigsquota||memory": 10 * 2**24},
    ),
}
"""Creates the quotas and 40 pods of a core; some of the counts once 10 are placed."""


def attempted(pod: model.Pod, replica: replicas.Replica, node: str) -> str:
    """The calls of kube-scheduler about a pod: no bind if filter keeps no node."""
    answer = replica.filter(pod)
    return replica.bind(pod, node) if node in answer.trace.kept else "refused by filter"


def replayed(shop: replicas.Cluster) -> tuple[list[str], dict[str, int]]:
    """The limits that are exceeded at any offset of the log, and the counts at its end.

    Both by a fold that shares no code with the product.
    """
    fold, overspent = plain_fold.Fold(), list[str]()
    for event in shop.recorded():
        fold.apply(event)
        overspent += [f"offset {fold.offset}: {problem}" for problem in quota_law.overspent(fold)]
    return overspent, fold.counts()


@pytest.mark.scenario("EQ-15")
@pytest.mark.scenario("EQ-22")
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("seed", range(3))
def test_forty_pods_ten_cores_three_replicas(
    store_server: embedded.Server, cluster: str, race: str, seed: int
) -> None:
    dice = random.Random(seed)
    create, expected = RACES[race]
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        pods = create(shop)
        shop.see()
        each = [shop.replica(beside=(ElasticQuota,)) for _ in range(3)]
        for status in (403, 409, 500):
            shop.api.faults.add(faults.FaultKind.FAIL, bind_plays.BINDING, status=status, times=2)
        shop.api.faults.add(faults.FaultKind.LOSE, bind_plays.BINDING, times=2)
        plan = [(one, dice.choice(each), dice.choice(NODES)) for one in pods]
        with futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: attempted(*one), plan))
        assert replayed(shop)[0] == []
        wanted = {one.uid: node for one, _, node in plan}
        # A Binding whose outcome is unknown keeps its share until it cannot take effect any more.
        for _ in range(3):
            for one in dice.sample(pods, len(pods)):
                if not shop.bound(one):
                    shop.touch(one)
                attempted(one, each[0], wanted[one.uid])
        shop.see()
        counts = dict(each[1].snapshot().counts)
        assert counts == materialised.counts(each[0].store)
        assert {key: counts[key] for key in expected} == expected
        assert sum(shop.bound(one) != "" for one in pods) == 10
        assert replayed(shop) == ([], counts)


def test_no_request_makes_the_counts_of_the_store_inexact(
    store_server: embedded.Server, cluster: str
) -> None:
    """A tenant's pending pods need no node: they request as much as they like."""
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.quota(shop, "q", 10)
        shop.see()
        one = shop.replica(beside=(ElasticQuota,))
        wanted = [2**62] * 8192 + [1, 1]
        pods = [
            model.Pod(
                uid=f"u{number}",
                namespace=replicas.NAMESPACE,
                name=f"p{number}",
                labels={membership.LABEL: "q"},
                requests={"cpu": request},
            )
            for number, request in enumerate(wanted)
        ]
        for start in (*range(0, 8192, 256), 8192, 8193):
            projection = projections.Projection(one.snapshot())
            batch = [events.PodSeen(pod=each) for each in pods[start : start + (256 if start < 8192 else 1)]]
            projection.apply_all(batch)
            one.store.log.append(batches.Batch(events=batch, increments=projection.increments))
        assert materialised.counts(one.store) == dict(one.snapshot().counts)


def own_quota(shop: replicas.Cluster) -> list[model.Pod]:
    """Two pods of a Koordinator quota of one core."""
    small_shops.quota(shop, "q", 1)
    return [small_shops.pod(shop, name, "q") for name in ("first", "second")]


def own_namespace(shop: replicas.Cluster) -> list[model.Pod]:
    """Two pods of a namespace that may use one core of the two that are guaranteed."""
    small_shops.namespace_quota(shop, "a", 1, 1)
    small_shops.namespace_quota(shop, "b", 1, 1)
    return [small_shops.pod(shop, name, namespace="a") for name in ("first", "second")]


def two_namespaces(shop: replicas.Cluster) -> list[model.Pod]:
    """A pod of each of two namespaces: one of them is guaranteed a core, both may use it."""
    small_shops.namespace_quota(shop, "a", 0, 1)
    small_shops.namespace_quota(shop, "b", 1, 1)
    return [small_shops.pod(shop, name, namespace=name) for name in ("a", "b")]


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        (own_quota, "elastic quota q: no capacity in cpu"),
        (own_namespace, "elastic quota a/quota: no capacity in cpu"),
        (two_namespaces, "elastic quota b/quota: no capacity in cpu within the mins of all quotas"),
    ],
)
def test_the_ceiling_holds_although_a_replica_has_not_seen_the_others_placements(
    store_server: embedded.Server,
    cluster: str,
    create: Callable[[replicas.Cluster], list[model.Pod]],
    reason: str,
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        first, second = create(shop)
        shop.see()
        one, other = (shop.replica(beside=(ElasticQuota,)) for _ in range(2))
        late = replicas.with_state(other, replicas.Behind(other, looks=2))
        other.context = late
        assert one.filter(first).trace.kept == set(NODES)
        assert one.bind(first, "n0") == ""
        assert other.bind(second, "n1") == f"topolog: {reason}"
        assert shop.bound(second) == ""
        assert replayed(shop)[0] == []


@pytest.mark.parametrize("create", [own_quota, own_namespace, two_namespaces])
def test_a_node_that_is_not_known_has_no_capacity_beyond_the_quota(
    store_server: embedded.Server, cluster: str, create: Callable[[replicas.Cluster], list[model.Pod]]
) -> None:
    """kube-scheduler offers a node as soon as it exists, also while no recorder writes."""
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        first, second = create(shop)
        shop.see()
        one, other = (shop.replica(beside=(ElasticQuota,)) for _ in range(2))
        small_shops.nodes(shop, ["new"])
        assert one.bind(first, "new") == ""
        assert "no capacity in cpu" in other.bind(second, "new")
        shop.see()
        shop.api.objects.remove("nodes", ("", "new"))
        shop.see()
        assert "no capacity in cpu" in other.bind(second, "n1")
        small_shops.nodes(shop, ["new"])
        shop.see()
        assert replayed(shop)[0] == []


@pytest.mark.scenario("EQ-16")
def test_two_children_cannot_both_take_the_last_core_of_their_parent(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        small_shops.quota(shop, "parent", 1, is_parent=True)
        small_shops.quota(shop, "a", 6, parent="parent")
        small_shops.quota(shop, "b", 6, parent="parent")
        pods = [small_shops.pod(shop, "in-a", "a"), small_shops.pod(shop, "in-b", "b")]
        shop.see()
        rules = {"runtime": False, "check_parents": True}
        each = [shop.replica(beside=(ElasticQuota,), ElasticQuota=rules) for _ in range(2)]
        with futures.ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda at: each[at].bind(pods[at], NODES[at]), range(2)))
        assert sorted(answers)[0] == ""
        assert sorted(answers)[1].endswith("no capacity in cpu of parent parent")
        assert each[0].snapshot().counts["quota||parent|cpu"] == 1_000
