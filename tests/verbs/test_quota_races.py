"""Concurrent binds under elastic quotas: no replica overspends, whatever becomes of the Bindings."""

import random
from concurrent import futures

import pytest

from app.domain import model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.simulation.apiserver import faults
from app.store.server import embedded
from tests.support.extender import bind_plays, replicas, small_shops

NODES = tuple(f"n{number}" for number in range(4))


def attempted(pod: model.Pod, replica: replicas.Replica, node: str) -> str:
    """The calls of kube-scheduler about a pod: no bind if filter keeps no node."""
    answer = replica.filter(pod)
    return replica.bind(pod, node) if node in answer.trace.kept else "refused by filter"


@pytest.mark.scenario("EQ-15")
@pytest.mark.parametrize("seed", range(3))
def test_forty_pods_ten_cores_three_replicas(store_server: embedded.Server, cluster: str, seed: int) -> None:
    dice = random.Random(seed)
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        small_shops.quota(shop, "q", 10)
        pods = [small_shops.pod(shop, f"p{number}", "q") for number in range(40)]
        shop.see()
        each = [shop.replica(beside=(ElasticQuota,)) for _ in range(3)]
        for status in (403, 409, 500):
            shop.api.faults.add(faults.FaultKind.FAIL, bind_plays.BINDING, status=status, times=2)
        shop.api.faults.add(faults.FaultKind.LOSE, bind_plays.BINDING, times=2)
        plan = [(one, dice.choice(each), dice.choice(NODES)) for one in pods]
        with futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: attempted(*one), plan))
        assert each[0].snapshot().counts.get("quota||q|cpu", 0) <= 10_000
        wanted = {one.uid: node for one, _, node in plan}
        # A Binding whose outcome is unknown keeps its share until it cannot take effect any more.
        for _ in range(3):
            for one in dice.sample(pods, len(pods)):
                if not shop.bound(one):
                    shop.touch(one)
                attempted(one, each[0], wanted[one.uid])
        shop.see()
        counts = dict(each[1].snapshot().counts)
        assert counts == each[0].store.log.counts()
        assert counts["quota||q|cpu"] == 10_000
        assert counts["quota||q|memory"] == 10 * 2**20
        assert counts["quota||q|pending|cpu"] == 30_000
        assert sum(shop.bound(one) != "" for one in pods) == 10


def test_the_ceiling_holds_although_a_replica_has_not_seen_the_others_placements(
    store_server: embedded.Server, cluster: str
) -> None:
    with replicas.cluster(store_server.url, cluster) as shop:
        small_shops.nodes(shop, NODES)
        small_shops.quota(shop, "q", 1)
        first, second = small_shops.pod(shop, "first", "q"), small_shops.pod(shop, "second", "q")
        shop.see()
        one, other = (shop.replica(beside=(ElasticQuota,)) for _ in range(2))
        late = replicas.with_state(other, replicas.Behind(other, looks=2))
        other.context = late
        assert one.filter(first).trace.kept == set(NODES)
        assert one.bind(first, "n0") == ""
        assert other.bind(second, "n1") == "topolog: elastic quota q: no capacity in cpu"
        assert shop.bound(second) == ""


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
