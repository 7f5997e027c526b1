"""Finer points: ranks among equal scores, grades of nearness, and what may pass without the store."""

import pytest

from app.domain import snapshots
from app.framework import cycles
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.scenarios import clusters, driving

NEXT = clusters.pod("next", clusters.REPLICA)


def held(cluster: driving.Cluster, counts: dict[str, int]) -> driving.Cluster:
    """So many pods of the policy on each node."""
    for node, count in counts.items():
        cluster.see(*(clusters.pod(f"{node}-{n}", clusters.REPLICA, node=node) for n in range(count)))
    return cluster


@pytest.mark.parametrize(
    ("method", "chosen"), [("Fill", "cnp-paas-ecsc-006"), ("Balance", "cnp-paas-ecsc-009")]
)
def test_inside_a_domain_the_method_chooses_the_node(method: str, chosen: str) -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 9}, method=method))
    held(cluster, dict(zip(clusters.HOSTS, (1, 2, 1, 0), strict=True)))
    # Strangers and ending pods on the nodes mean nothing.
    cluster.see(*(clusters.pod(f"stranger-{n}", node="cnp-paas-ecsc-009") for n in range(5)))
    cluster.see(clusters.pod("ending", clusters.REPLICA, node="cnp-paas-ecsc-009", terminating=True))
    assert cluster.only(NEXT) == chosen
    assert cluster.only(NEXT, [chosen, *clusters.MEMBERS]) == chosen


def test_ranks_are_the_same_by_either_walk() -> None:
    """A namespace much larger than the choice is walked by node, a smaller one by pod."""
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 99}))
    held(cluster, dict(zip(clusters.HOSTS, (20, 10, 5, 30), strict=True)))
    nodes = frozenset(clusters.HOSTS[:2])
    cycle = cycles.cycle(NEXT, nodes, cluster.snapshot)
    few = WorkloadPolicy().rank(cycle, nodes)
    all_of_them = WorkloadPolicy().rank(cycle, frozenset(cluster.snapshot.nodes))
    assert [few[node] for node in clusters.HOSTS[:2]] == [all_of_them[node] for node in clusters.HOSTS[:2]]
    assert few[clusters.HOSTS[0]] - few[clusters.HOSTS[1]] == 10


def test_where_all_is_reached_the_lowest_ratio_comes_first() -> None:
    quotas = {"a": 1, "b": 4, "zero": 0}
    nodes = [clusters.node(name, {clusters.KEY: name}) for name in (*quotas, "unlisted")]
    cluster = driving.Cluster(*nodes, clusters.node("unlabelled"), clusters.policy(quotas))
    held(cluster, {"a": 2, "b": 5})
    assert set(cluster.score(NEXT).values()) == {0}
    assert cluster.only(NEXT) == "b"
    assert cluster.only(NEXT, ["a", "unlisted", "unlabelled", "zero"]) == "a"
    many = [clusters.pod(f"next-{n}", clusters.REPLICA) for n in range(20)]
    assert {cluster.only(pod, ["unlisted", "zero"]) for pod in many} == {"unlisted"}


@pytest.mark.parametrize(("method", "chosen"), [("Balance", "a"), ("Fill", "b")])
def test_what_the_wire_cannot_tell_apart_the_exact_ratio_can(method: str, chosen: str) -> None:
    nodes = [clusters.node(name, {clusters.KEY: name}) for name in ("a", "b")]
    cluster = driving.Cluster(*nodes, clusters.policy({"a": 100, "b": 100}, method=method))
    held(cluster, {"a": 50, "b": 51})
    assert len(set(cluster.score(NEXT).values())) == 1
    assert cluster.only(NEXT) == chosen


GRADES = (("zone", 3), ("rack", 6))
WORKER = {"rl-job-group": "g"}


@pytest.mark.parametrize(
    ("score_max", "scores"), [(10, (10, 6, 3, 0)), (100, (100, 60, 30, 0)), (1, (1, 1, 0, 0))]
)
def test_grades_follow_the_scale(score_max: int, scores: tuple[int, ...]) -> None:
    places = {"here": ("z1", "r1"), "rack": ("z1", "r1"), "zone": ("z1", "r2"), "far": ("z2", "r3")}
    nodes = [clusters.node(name, {"zone": zone, "rack": rack}) for name, (zone, rack) in places.items()]
    cluster = driving.Cluster(*nodes, configured=[JobAffinity(grades=GRADES)], score_max=score_max)
    cluster.see(clusters.pod("w1", WORKER, node="here"))
    found = cluster.score(clusters.pod("w2", WORKER))
    assert tuple(found[name] for name in places) == scores


def test_siblings_of_all_namespaces_on_request() -> None:
    for everywhere, score in ((False, 0), (True, 10)):
        cluster = driving.Cluster(clusters.node("n"), configured=[JobAffinity(all_namespaces=everywhere)])
        cluster.see(clusters.pod("w1", WORKER, namespace="other", node="n"))
        assert cluster.score(clusters.pod("w2", WORKER)) == {"n": score}


def test_another_label_can_name_the_group() -> None:
    cluster = driving.Cluster(clusters.node("n"), configured=[JobAffinity(label="job")])
    cluster.see(clusters.pod("w1", {"job": "g"}, node="n"))
    assert cluster.score(clusters.pod("w2", {"job": "g"})) == {"n": 10}


def test_only_known_preferences_pass_without_the_store() -> None:
    plugin = WorkloadPolicy()

    def soft(*things: driving.Thing) -> bool:
        return plugin.soft(NEXT, driving.Cluster(*things).snapshot)

    assert soft(clusters.policy())
    assert not soft(clusters.policy(required=True))
    assert not soft(clusters.policy(strict=True))
    assert not soft(clusters.policy(errors=("broken",)))
    assert not soft()
    assert not plugin.soft(NEXT, snapshots.empty())
