"""Scenarios of WorkloadPolicy: where the pods of a Deployment are placed, over several orders of ties."""

import random
from collections import Counter

import msgspec
import pytest

from app.domain import model
from app.plugins.workload_policy import policy_model
from tests.support.decisions import scheduling_driver, small_clusters

SEEDS = range(60)
FULL = "workload policy workload-test/workload-policy-test: no capacity (member 1/1, host 3/3)"


def replicas(count: int) -> list[model.Pod]:
    return [small_clusters.pod(f"replica-{number}", small_clusters.REPLICA) for number in range(count)]


def domains(cluster: scheduling_driver.Cluster, nodes: list[str | None]) -> Counter[str | None]:
    return Counter(
        cluster.snapshot.nodes[node].labels[small_clusters.KEY] if node else None for node in nodes
    )


def deployed(
    seed: int, policy: policy_model.WorkloadPolicy, *extra: model.Node, pods: int = 6, alone: bool = True
) -> tuple[scheduling_driver.Cluster, list[str | None]]:
    """The Deployment scheduled pod by pod on F6 and the extra nodes."""
    cluster, dice = scheduling_driver.Cluster(*small_clusters.f6(), *extra, policy), random.Random(seed)
    return cluster, [cluster.schedule(pod, dice, alone=alone) for pod in replicas(pods)]


@pytest.mark.scenario("WP-1")
@pytest.mark.parametrize("seed", SEEDS)
def test_preferred_balance_takes_each_of_six_nodes_once(seed: int) -> None:
    cluster, nodes = deployed(seed, small_clusters.policy())
    assert sorted(map(str, nodes)) == sorted((*small_clusters.MEMBERS, *small_clusters.HOSTS))
    assert domains(cluster, nodes[:4]) == {"member": 1, "host": 3}
    assert domains(cluster, nodes) == {"member": 2, "host": 4}


@pytest.mark.scenario("WP-1")
def test_preferred_balance_percentages_in_order() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy(), score_max=100)
    host, other = small_clusters.HOSTS[0], small_clusters.MEMBERS[0]
    seen = []
    for number, pod in enumerate(replicas(4)):
        scores = cluster.score(pod)
        seen.append((scores[other], scores[host]))
        cluster.place(pod, other if number == 1 else small_clusters.HOSTS[number])
    assert seen == [(100, 100), (100, 66), (0, 66), (0, 33)]
    assert set(cluster.score(replicas(5)[4]).values()) == {0}
    assert cluster.filter(replicas(5)[4]).kept == frozenset(cluster.snapshot.nodes)


@pytest.mark.scenario("WP-1b")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("extra", [("host",), ("host", "member")], ids=["7 nodes", "8 nodes"])
def test_more_nodes_than_pods_leave_none_pending(seed: int, extra: tuple[str, ...]) -> None:
    more = [
        small_clusters.node(f"cnp-paas-ecsc-01{at}", {small_clusters.KEY: to}) for at, to in enumerate(extra)
    ]
    _, nodes = deployed(seed, small_clusters.policy(), *more)
    assert None not in nodes
    assert len(set(nodes)) == 6


@pytest.mark.scenario("WP-1c")
@pytest.mark.parametrize("seed", SEEDS)
def test_preferred_fill_fills_quotas_before_it_exceeds_them(seed: int) -> None:
    cluster, nodes = deployed(seed, small_clusters.policy(method="Fill"), alone=False)
    assert domains(cluster, nodes[:4]) == {"member": 1, "host": 3}
    assert None not in nodes


@pytest.mark.scenario("WP-2")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("alone", [True, False], ids=["one per node", "any per node"])
def test_required_fill_runs_four_and_keeps_two_pending(seed: int, alone: bool) -> None:
    cluster, nodes = deployed(seed, small_clusters.policy(required=True, method="Fill"), alone=alone)
    assert domains(cluster, nodes) == {"member": 1, "host": 3, None: 2}
    assert nodes[4:] == [None, None]
    assert cluster.why(replicas(6)[5]) == FULL


@pytest.mark.scenario("WP-2")
def test_required_fill_percentages_while_host_fills() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy(required=True, method="Fill"), score_max=100
    )
    seen = []
    for pod, node in zip(replicas(3), small_clusters.HOSTS, strict=False):
        seen.append(cluster.score(pod)[node])
        cluster.place(pod, node)
    assert seen == [1, 33, 66]  # 0 percent is 1 on the wire: an empty domain still beats a reached one
    assert cluster.score(replicas(4)[3])[small_clusters.HOSTS[3]] == 0


@pytest.mark.scenario("WP-2b")
@pytest.mark.parametrize("seed", SEEDS)
def test_required_balance_ends_alike(seed: int) -> None:
    cluster, nodes = deployed(seed, small_clusters.policy(required=True))
    assert domains(cluster, nodes) == {"member": 1, "host": 3, None: 2}


@pytest.mark.scenario("WP-2c")
def test_after_three_hosts_only_members_pass() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy(required=True, method="Fill")
    )
    *first, fourth = replicas(4)
    for pod, node in zip(first, small_clusters.HOSTS, strict=False):
        cluster.place(pod, node)
    trace = cluster.filter(fourth)
    assert trace.kept == frozenset(small_clusters.MEMBERS)
    (reason,) = set(trace.reasons().values())
    assert reason.endswith("workload-policy-test: no capacity on these nodes (member 0/1, host 3/3)")


@pytest.mark.scenario("WP-3")
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("domain", ["host", "member"])
def test_a_terminating_pod_frees_its_place_for_one(seed: int, domain: str) -> None:
    cluster, _ = deployed(seed, small_clusters.policy(required=True, method="Fill"))
    ending = next(
        pod
        for pod in cluster.snapshot.pods.values()
        if pod.node and cluster.snapshot.nodes[pod.node].labels[small_clusters.KEY] == domain
    )
    cluster.see(msgspec.structs.replace(ending, terminating=True))
    again = [cluster.schedule(pod, random.Random(seed), alone=True) for pod in replicas(6)[4:]]
    assert domains(cluster, again) == {domain: 1, None: 1}
    cluster.gone(ending)
    assert cluster.why(next(pod for pod in cluster.snapshot.pods.values() if not pod.node)) == FULL


@pytest.mark.scenario("WP-16")
@pytest.mark.parametrize("method", ["Balance", "Fill"])
@pytest.mark.parametrize("score_max", [10, 100])
def test_scores_never_invert_the_order_of_ratios(method: str, score_max: int) -> None:
    nodes = [small_clusters.node(name, {small_clusters.KEY: name}) for name in ("one", "two", "nine")]
    policy = small_clusters.policy({"one": 10, "two": 10, "nine": 10}, method=method)
    cluster = scheduling_driver.Cluster(*nodes, policy, score_max=score_max)
    for domain, count in (("one", 1), ("two", 2), ("nine", 9)):
        for number in range(count):
            cluster.see(small_clusters.pod(f"{domain}-{number}", small_clusters.REPLICA, node=domain))
    scores = cluster.score(small_clusters.pod("next", small_clusters.REPLICA))
    order = sorted(scores, key=lambda node: -scores[node])
    assert order == (["nine", "two", "one"] if method == "Fill" else ["one", "two", "nine"])
    assert len(set(scores.values())) == 3


@pytest.mark.scenario("WP-17")
@pytest.mark.parametrize(("count", "desired", "percent"), [(9, 10, 10), (4, 5, 20), (11, 20, 45), (2, 3, 33)])
def test_percentages_are_exact_integers(count: int, desired: int, percent: int) -> None:
    cluster = scheduling_driver.Cluster(
        small_clusters.node("n", {small_clusters.KEY: "host"}),
        small_clusters.policy({"host": desired}),
        score_max=100,
    )
    for number in range(count):
        cluster.see(small_clusters.pod(f"p-{number}", small_clusters.REPLICA, node="n"))
    assert cluster.score(small_clusters.pod("next", small_clusters.REPLICA)) == {"n": percent}
