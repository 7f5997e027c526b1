"""Seed 000's scenes: workers of one job find one another."""

import msgspec
import pytest

from app.domain import events
from tests.scenarios import clusters, driving

ALPHA, BETA = {"rl-job-group": "job-alpha"}, {"rl-job-group": "job-beta"}
NODES = (clusters.node("node-1"), clusters.node("node-2"))


@pytest.mark.scenario("RL-1")
def test_a_node_with_a_sibling_has_ten() -> None:
    cluster = driving.Cluster(*NODES)
    cluster.see(clusters.pod("other-pod", node="node-1"), clusters.pod("rl-worker-1", ALPHA, node="node-2"))
    assert cluster.score(clusters.pod("rl-worker-3", ALPHA)) == {"node-1": 0, "node-2": 10}


@pytest.mark.scenario("RL-2")
def test_without_siblings_every_node_has_nothing() -> None:
    cluster = driving.Cluster(*NODES, clusters.pod("beta", BETA, node="node-2"))
    assert cluster.score(clusters.pod("rl-worker-3", ALPHA)) == {"node-1": 0, "node-2": 0}


@pytest.mark.scenario("RL-3")
@pytest.mark.parametrize("labels", [{}, {"rl-job-group": ""}], ids=["no label", "empty label"])
def test_a_pod_without_a_group_gets_nothing(labels: dict[str, str]) -> None:
    cluster = driving.Cluster(NODES[0], clusters.pod("rl-worker-1", ALPHA, node="node-1"))
    cluster.see(clusters.pod("empty", {"rl-job-group": ""}, node="node-1"))
    assert cluster.score(clusters.pod("nginx-pod", labels)) == {"node-1": 0}


@pytest.mark.scenario("RL-5")
def test_siblings_on_two_nodes() -> None:
    cluster = driving.Cluster(*NODES)
    cluster.see(clusters.pod("w1", ALPHA, node="node-1"), clusters.pod("w2", ALPHA, node="node-2"))
    assert cluster.score(clusters.pod("w3", ALPHA)) == {"node-1": 10, "node-2": 10}


@pytest.mark.scenario("RL-5")
def test_ending_siblings_and_those_elsewhere_do_not_count() -> None:
    cluster, worker = driving.Cluster(*NODES), clusters.pod("w1", ALPHA, node="node-1")
    cluster.see(msgspec.structs.replace(worker, terminating=True))
    cluster.see(clusters.pod("w2", ALPHA, node="node-1", phase="Succeeded"))
    cluster.see(clusters.pod("w3", ALPHA, node="node-2", namespace="other"))
    assert cluster.score(clusters.pod("w4", ALPHA)) == {"node-1": 0, "node-2": 0}


@pytest.mark.scenario("RL-6")
def test_a_promise_counts_before_the_watch_shows_it() -> None:
    cluster = driving.Cluster(*NODES)
    first, second = clusters.pod("rl-worker-1", ALPHA), clusters.pod("rl-worker-2", ALPHA)
    cluster.see(first, second)
    cluster.place(first, "node-2")
    assert cluster.score(second) == {"node-1": 0, "node-2": 10}
    assert cluster.score(first) == {"node-1": 0, "node-2": 0}, "no pod is its own sibling"
    cluster.take(
        events.PlacementReleased(
            uid=first.uid,
            namespace=first.namespace,
            name=first.name,
            node="node-2",
            reason="refused",
            cause="refused",
        )
    )
    assert cluster.score(second) == {"node-1": 0, "node-2": 0}


@pytest.mark.scenario("RL-1")
def test_filter_refuses_nothing() -> None:
    cluster = driving.Cluster(*NODES, clusters.pod("w1", ALPHA, node="node-1"))
    trace = cluster.filter(clusters.pod("w2", ALPHA))
    assert trace.interested == ("JobAffinity",)
    assert trace.kept == {"node-1", "node-2"}
