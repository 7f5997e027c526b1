"""Scenarios of WorkloadPolicy: the pods that a policy counts."""

import random

import msgspec
import pytest

from app.domain import events, model
from tests.support.decisions import scheduling_driver, small_clusters

HOST, OTHER_HOST, MEMBER = small_clusters.HOSTS[0], small_clusters.HOSTS[1], small_clusters.MEMBERS[0]


@pytest.mark.scenario("WP-4")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_frees_its_place(phase: str) -> None:
    policy = small_clusters.policy({"host": 1}, required=True)
    running = small_clusters.pod("first", small_clusters.REPLICA, node=HOST)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy, running)
    pending = small_clusters.pod("second", small_clusters.REPLICA)
    assert cluster.why(pending).endswith("no capacity (host 1/1)")
    cluster.see(msgspec.structs.replace(running, phase=phase))
    assert cluster.count(policy, "host") == 0
    assert cluster.filter(pending).kept == frozenset(small_clusters.HOSTS)


@pytest.mark.scenario("WP-5")
def test_unassigned_pods_count_nowhere() -> None:
    policy = small_clusters.policy()
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    cluster.see(*(small_clusters.pod(f"replica-{number}", small_clusters.REPLICA) for number in range(6)))
    assert [cluster.count(policy, domain) for domain in ("member", "host")] == [0, 0]


@pytest.mark.scenario("WP-6")
def test_pods_of_the_namespace_count_with_or_without_the_policy_label() -> None:
    policy = small_clusters.policy()
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    cluster.see(small_clusters.pod("elsewhere", small_clusters.REPLICA, namespace="other", node=HOST))
    assert cluster.count(policy, "host") == 0
    cluster.see(small_clusters.pod("unlabelled", {"app": small_clusters.APP}, node=HOST))
    assert cluster.count(policy, "host") == 1
    cluster.see(
        small_clusters.pod(
            "unselected", {"app": "other", small_clusters.LABEL: small_clusters.POLICY}, node=HOST
        )
    )
    assert cluster.count(policy, "host") == 1


@pytest.mark.scenario("WP-6")
def test_kosmos_own_count_of_labels_and_namespaces() -> None:
    policy = small_clusters.policy(namespace="ns1", selector=model.Selector(labels={"app": "test"}))
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    for number, (namespace, app) in enumerate(
        [("ns1", "test"), ("ns1", "test"), ("ns2", "test"), ("ns1", "other")]
    ):
        cluster.see(small_clusters.pod(f"p-{number}", {"app": app}, namespace=namespace, node=HOST))
    assert cluster.count(policy, "host") == 2


@pytest.mark.scenario("WP-7")
def test_a_policy_of_another_namespace_does_not_apply() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy(namespace="other"))
    pod = small_clusters.pod("replica", small_clusters.REPLICA)
    assert cluster.why(pod) == "workload policy workload-test/workload-policy-test: not found"


@pytest.mark.scenario("WP-7")
def test_a_later_policy_counts_pods_that_ran_before_it() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6())
    for number, host in enumerate(small_clusters.HOSTS[:3]):
        cluster.see(small_clusters.pod(f"before-{number}", small_clusters.REPLICA, node=host))
    pending = small_clusters.pod("pending", small_clusters.REPLICA)
    cluster.see(pending)
    assert cluster.why(pending).endswith("not found")
    policy = small_clusters.policy(required=True)
    cluster.see(policy)
    assert cluster.count(policy, "host") == 3
    assert cluster.filter(pending).kept == frozenset(small_clusters.MEMBERS)


@pytest.mark.scenario("WP-8")
@pytest.mark.parametrize(
    ("requirement", "selected"),
    [
        (("tier", "In", ("front", "edge")), {"a": True, "b": False, "c": False}),
        (("tier", "NotIn", ("front",)), {"a": False, "b": True, "c": True}),
        (("tier", "Exists", ()), {"a": True, "b": True, "c": False}),
        (("tier", "DoesNotExist", ()), {"a": False, "b": False, "c": True}),
    ],
)
def test_expressions_select_together_with_labels(
    requirement: tuple[str, str, tuple[str, ...]], selected: dict[str, bool]
) -> None:
    key, operator, values = requirement
    expression = model.Requirement(key=key, operator=operator, values=values)
    selector = model.Selector(labels={"app": small_clusters.APP}, expressions=(expression,))
    policy = small_clusters.policy({"host": 3}, required=True, selector=selector)
    tiers: dict[str, dict[str, str]] = {"a": {"tier": "front"}, "b": {"tier": "back"}, "c": {}}
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    for name, labels in tiers.items():
        pod = small_clusters.pod(name, {**small_clusters.REPLICA, **labels})
        assert bool(cluster.filter(pod).kept) is selected[name]
        cluster.see(msgspec.structs.replace(pod, node=HOST))
    cluster.see(small_clusters.pod("unrelated", {"app": "other", "tier": "front"}, node=HOST))
    assert cluster.count(policy, "host") == sum(selected.values())


@pytest.mark.scenario("WP-9")
@pytest.mark.parametrize("required", [True, False])
def test_a_pod_that_its_own_policy_does_not_select_is_refused_everywhere(required: bool) -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy(required=required))
    pod = small_clusters.pod("stray", {small_clusters.LABEL: small_clusters.POLICY, "app": "other"})
    assert cluster.why(pod).endswith("workload-policy-test: pod labels do not match its labelSelector")


@pytest.mark.scenario("WP-11")
def test_daemon_pods_pass_everywhere_and_count() -> None:
    policy = small_clusters.policy({"host": 1}, required=True)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    daemon = small_clusters.pod("daemon", small_clusters.REPLICA, owner="DaemonSet")
    cluster.see(msgspec.structs.replace(daemon, node=HOST))
    assert cluster.count(policy, "host") == 1
    again = small_clusters.pod("daemon-2", small_clusters.REPLICA, owner="DaemonSet")
    assert cluster.filter(again).kept == frozenset(cluster.snapshot.nodes)
    assert set(cluster.score(again).values()) == {0}
    assert cluster.why(small_clusters.pod("replica", small_clusters.REPLICA)).endswith(
        "no capacity (host 1/1)"
    )


@pytest.mark.scenario("WP-13")
def test_fewer_replicas_evict_no_pod_and_more_admit_the_right_number() -> None:
    policy = small_clusters.policy({"host": 3}, required=True)
    cluster, dice = scheduling_driver.Cluster(*small_clusters.f6(), policy), random.Random(1)
    pods = [small_clusters.pod(f"replica-{number}", small_clusters.REPLICA) for number in range(8)]
    assert [bool(cluster.schedule(pod, dice)) for pod in pods] == [True] * 3 + [False] * 5
    fewer = small_clusters.policy({"host": 2}, required=True)
    cluster.see(fewer)
    assert cluster.count(fewer, "host") == 3
    assert cluster.why(pods[3]).endswith("no capacity (host 3/2)")
    cluster.see(small_clusters.policy({"host": 2}))
    assert set(cluster.score(pods[3]).values()) == {0}
    assert cluster.filter(pods[3]).kept == frozenset(cluster.snapshot.nodes)
    cluster.see(small_clusters.policy({"host": 5}, required=True))
    assert [bool(cluster.schedule(pod, dice)) for pod in pods[3:]] == [True, True, False, False, False]


@pytest.mark.scenario("WP-13")
def test_an_edited_key_or_selector_is_counted_again() -> None:
    nodes = [
        small_clusters.node("n1", {"zone": "a", "rack": "r"}),
        small_clusters.node("n2", {"zone": "b", "rack": "r"}),
    ]
    policy = small_clusters.policy({"a": 1, "b": 1}, key="zone", required=True)
    cluster = scheduling_driver.Cluster(*nodes, policy)
    cluster.see(
        small_clusters.pod("p1", small_clusters.REPLICA, node="n1"),
        small_clusters.pod("p2", small_clusters.REPLICA, node="n2"),
    )
    racks = small_clusters.policy({"r": 5}, key="rack", required=True)
    cluster.see(racks)
    assert (cluster.count(racks, "r"), cluster.count(racks, "a")) == (2, 0)
    unmatched = small_clusters.policy({"r": 5}, key="rack", selector=model.Selector(labels={"app": "none"}))
    cluster.see(unmatched)
    assert cluster.count(unmatched, "r") == 0


@pytest.mark.scenario("WP-20")
def test_overlapping_policies_count_by_their_own_selectors() -> None:
    wide = small_clusters.policy({"host": 3}, name="wide", required=True, selector=model.Selector())
    narrow = small_clusters.policy({"host": 1}, name="narrow", required=True)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), wide, narrow)
    cluster.see(
        small_clusters.pod("a", {"app": small_clusters.APP, small_clusters.LABEL: "narrow"}, node=HOST)
    )
    cluster.see(small_clusters.pod("b", {"app": "other", small_clusters.LABEL: "wide"}, node=HOST))
    assert (cluster.count(wide, "host"), cluster.count(narrow, "host")) == (2, 1)
    assert cluster.filter(small_clusters.pod("c", {"app": "other", small_clusters.LABEL: "wide"})).kept
    refused = small_clusters.pod("d", {"app": small_clusters.APP, small_clusters.LABEL: "narrow"})
    assert cluster.why(refused) == "workload policy workload-test/narrow: no capacity (host 1/1)"


@pytest.mark.scenario("WP-3")
def test_a_place_is_taken_from_the_placement_to_its_release() -> None:
    policy = small_clusters.policy({"host": 1}, required=True)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    first, second = (small_clusters.pod(name, small_clusters.REPLICA) for name in ("first", "second"))
    cluster.see(first, second)
    cluster.place(first, HOST)
    assert cluster.count(policy, "host") == 1
    assert cluster.why(second).endswith("no capacity (host 1/1)")
    assert cluster.filter(first).kept == frozenset(small_clusters.HOSTS)
    cluster.take(
        events.PlacementReleased(
            uid=first.uid,
            namespace=first.namespace,
            name=first.name,
            node=HOST,
            reason="refused",
            cause="refused",
        )
    )
    assert cluster.filter(second).kept == frozenset(small_clusters.HOSTS)
