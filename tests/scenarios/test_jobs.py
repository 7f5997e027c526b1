"""Scenarios of JobAffinity: workers of one job are placed together."""

import msgspec
import pytest

from app.domain import events
from tests.support.decisions import scheduling_driver, small_clusters

ALPHA, BETA = {"rl-job-group": "job-alpha"}, {"rl-job-group": "job-beta"}
NODES = (small_clusters.node("node-1"), small_clusters.node("node-2"))


@pytest.mark.scenario("RL-1")
def test_a_node_with_a_sibling_has_ten() -> None:
    cluster = scheduling_driver.Cluster(*NODES)
    cluster.see(
        small_clusters.pod("other-pod", node="node-1"),
        small_clusters.pod("rl-worker-1", ALPHA, node="node-2"),
    )
    assert cluster.score(small_clusters.pod("rl-worker-3", ALPHA)) == {"node-1": 0, "node-2": 10}


@pytest.mark.scenario("RL-2")
def test_without_siblings_every_node_scores_zero() -> None:
    cluster = scheduling_driver.Cluster(*NODES, small_clusters.pod("beta", BETA, node="node-2"))
    assert cluster.score(small_clusters.pod("rl-worker-3", ALPHA)) == {"node-1": 0, "node-2": 0}


@pytest.mark.scenario("RL-3")
@pytest.mark.parametrize("labels", [{}, {"rl-job-group": ""}], ids=["no label", "empty label"])
def test_a_pod_without_a_group_is_not_scored(labels: dict[str, str]) -> None:
    cluster = scheduling_driver.Cluster(NODES[0], small_clusters.pod("rl-worker-1", ALPHA, node="node-1"))
    cluster.see(small_clusters.pod("empty", {"rl-job-group": ""}, node="node-1"))
    assert cluster.score(small_clusters.pod("nginx-pod", labels)) == {"node-1": 0}


@pytest.mark.scenario("RL-5")
def test_siblings_on_two_nodes() -> None:
    cluster = scheduling_driver.Cluster(*NODES)
    cluster.see(
        small_clusters.pod("w1", ALPHA, node="node-1"), small_clusters.pod("w2", ALPHA, node="node-2")
    )
    assert cluster.score(small_clusters.pod("w3", ALPHA)) == {"node-1": 10, "node-2": 10}


@pytest.mark.scenario("RL-5")
def test_terminating_siblings_and_those_elsewhere_do_not_count() -> None:
    cluster, worker = scheduling_driver.Cluster(*NODES), small_clusters.pod("w1", ALPHA, node="node-1")
    cluster.see(msgspec.structs.replace(worker, terminating=True))
    cluster.see(small_clusters.pod("w2", ALPHA, node="node-1", phase="Succeeded"))
    cluster.see(small_clusters.pod("w3", ALPHA, node="node-2", namespace="other"))
    assert cluster.score(small_clusters.pod("w4", ALPHA)) == {"node-1": 0, "node-2": 0}


@pytest.mark.scenario("RL-6")
def test_a_placement_counts_before_the_watch_shows_it() -> None:
    cluster = scheduling_driver.Cluster(*NODES)
    first, second = small_clusters.pod("rl-worker-1", ALPHA), small_clusters.pod("rl-worker-2", ALPHA)
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
def test_filter_refuses_no_node() -> None:
    cluster = scheduling_driver.Cluster(*NODES, small_clusters.pod("w1", ALPHA, node="node-1"))
    trace = cluster.filter(small_clusters.pod("w2", ALPHA))
    assert trace.interested == ("JobAffinity",)
    assert trace.kept == {"node-1", "node-2"}
