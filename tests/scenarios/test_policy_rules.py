"""Scenarios of WorkloadPolicy: the decision table over unusual nodes, quotas, policies and labels."""

import random

import msgspec
import pytest

from app.domain import model, verdicts
from app.framework import capabilities, views
from app.plugins.workload_policy import plugin, policy_model
from tests.support.decisions import scheduling_driver, small_clusters

ODD = (small_clusters.node("unlisted", {small_clusters.KEY: "cloud"}), small_clusters.node("unlabelled"))
HOST = small_clusters.HOSTS[0]
PREFIX = "workload policy workload-test/workload-policy-test:"


def pod(labels: dict[str, str] | None = None) -> model.Pod:
    return small_clusters.pod("replica", small_clusters.REPLICA if labels is None else labels)


def details(trace: verdicts.Trace) -> dict[str, frozenset[str]]:
    return dict(trace.refusals[0].details)


@pytest.mark.scenario("WP-10")
def test_required_refuses_unlisted_and_unlabelled_nodes() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), *ODD, small_clusters.policy(required=True))
    trace = cluster.filter(pod())
    assert trace.refused == {"unlisted", "unlabelled"}
    assert set(trace.reasons().values()) == {f"{PREFIX} no capacity on these nodes (member 0/1, host 0/3)"}
    assert details(trace) == {
        "domain cloud is not listed": frozenset({"unlisted"}),
        "no label workload-test": frozenset({"unlabelled"}),
    }


@pytest.mark.scenario("WP-10")
def test_preferred_allows_unlisted_and_unlabelled_nodes_with_score_zero() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), *ODD, small_clusters.policy())
    assert not cluster.filter(pod()).refused
    scores = cluster.score(pod())
    assert (scores["unlisted"], scores["unlabelled"], scores[HOST]) == (0, 0, 10)


@pytest.mark.scenario("WP-10")
def test_strict_domains_refuse_as_kosmos_does() -> None:
    policy = small_clusters.policy({"member": 0, "host": 1}, strict=True)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), *ODD, policy)
    cluster.see(small_clusters.pod("running", small_clusters.REPLICA, node=HOST))
    trace = cluster.filter(pod())
    assert trace.refused == {"unlisted", "unlabelled"}  # not the reached ones: the quotas stay soft
    assert set(trace.reasons().values()) == {f"{PREFIX} only nodes with workload-test in (member, host)"}


@pytest.mark.scenario("WP-10")
def test_quota_zero_is_refused_if_required_and_a_last_resort_if_preferred() -> None:
    quotas = {"member": 0, "host": 1}
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy(quotas, required=True))
    assert cluster.filter(pod()).kept == frozenset(small_clusters.HOSTS)
    assert details(cluster.filter(pod())) == {"member: 0/0": frozenset(small_clusters.MEMBERS)}
    cluster.see(small_clusters.policy(quotas))
    cluster.see(small_clusters.pod("running", small_clusters.REPLICA, node=HOST))
    assert not cluster.filter(pod()).refused
    assert set(cluster.score(pod()).values()) == {0}
    assert cluster.only(pod()) in small_clusters.HOSTS


@pytest.mark.scenario("WP-10")
@pytest.mark.parametrize(
    "errors",
    [("replicas of host is -1; it must be 0 or more",), ("spec is missing",), ("a", "b")],
    ids=["replicas -1", "missing spec", "several"],
)
def test_an_invalid_policy_refuses_and_gives_the_reason(errors: tuple[str, ...]) -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy(errors=errors))
    assert cluster.why(pod()) == f"{PREFIX} invalid: {'; '.join(errors)}"
    assert set(cluster.score(pod()).values()) == {0}


@pytest.mark.scenario("WP-10")
@pytest.mark.parametrize(
    "policy", [None, small_clusters.policy(errors=("broken",))], ids=["absent", "invalid"]
)
def test_missing_policies_may_be_ignored(policy: policy_model.WorkloadPolicy | None) -> None:
    lenient = plugin.WorkloadPolicy(missing_policy="ignore")
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), *([policy] if policy else []), configured=[lenient]
    )
    assert not cluster.filter(pod()).refused
    assert cluster.schedule(pod(), random.Random(1))
    stray = pod({small_clusters.LABEL: small_clusters.POLICY, "app": "other"})
    cluster.see(small_clusters.policy())
    assert cluster.why(stray).endswith("pod labels do not match its labelSelector")


@pytest.mark.scenario("WP-10")
def test_an_empty_label_names_no_policy() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy())
    empty = pod({**small_clusters.REPLICA, small_clusters.LABEL: ""})
    assert cluster.why(empty) == "workload policy workload-test/: not found (the pod's label is empty)"


@pytest.mark.scenario("WP-10")
def test_a_reason_counts_the_domains_that_it_does_not_name() -> None:
    policy = small_clusters.policy({f"d{number}": 0 for number in range(15)}, required=True)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    spelled = ", ".join(f"d{number} 0/0" for number in range(4))
    assert cluster.why(pod()) == f"{PREFIX} no capacity ({spelled} and 11 more)"


@pytest.mark.scenario("WP-18")
def test_the_alias_label_works_and_the_canonical_one_wins() -> None:
    policy = small_clusters.policy({"host": 1}, required=True)
    other = small_clusters.policy({"member": 1}, name="other", required=True)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy, other)
    alias = {"app": small_clusters.APP, "workload-policy.kosmos.io": "other"}
    assert cluster.filter(pod(alias)).kept == frozenset(small_clusters.MEMBERS)
    assert cluster.filter(pod({**alias, small_clusters.LABEL: small_clusters.POLICY})).kept == frozenset(
        small_clusters.HOSTS
    )


@pytest.mark.scenario("WP-18")
def test_the_policy_view_warns_of_alias_labels() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy())
    alias = {"app": small_clusters.APP, "workload-policy.kosmos.io": small_clusters.POLICY}
    cluster.see(
        small_clusters.pod("alias", alias),
        small_clusters.pod("both", {**alias, small_clusters.LABEL: "other"}),
    )
    assert warnings(cluster) == [
        "1 pods name the policy only by the alias workload-policy.kosmos.io; use workload-policy/kosmos.io",
        "1 pods name this policy by workload-policy.kosmos.io and another by workload-policy/kosmos.io,"
        " which wins: workload-test/both",
    ]


@pytest.mark.scenario("WP-21")
def test_the_view_warns_of_a_rolling_update_that_full_quotas_block() -> None:
    policy = small_clusters.policy({"host": 2}, required=True)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    old = [
        small_clusters.pod(f"old-{n}", {**small_clusters.REPLICA, "pod-template-hash": "aaa"}, node=HOST)
        for n in (1, 2)
    ]
    new = small_clusters.pod("new-1", {**small_clusters.REPLICA, "pod-template-hash": "bbb"})
    cluster.see(*old, new)
    assert cluster.why(new).endswith("no capacity (host 2/2)")
    (warning,) = warnings(cluster)
    assert warning.startswith("pods of pod-template-hash bbb wait for places held by aaa: a rolling update")
    cluster.see(msgspec.structs.replace(old[0], terminating=True))
    assert warnings(cluster) == []
    assert cluster.filter(new).kept == frozenset(small_clusters.HOSTS)


def warnings(cluster: scheduling_driver.Cluster) -> list[str]:
    """The warnings in the policy's view."""
    (served,) = (served for served in cluster.plugins.shows if served.name == "WorkloadPolicy")
    view = _endpoint(served, "policies/<namespace>/<name>").handle(
        cluster.snapshot, {"namespace": small_clusters.NAMESPACE, "name": small_clusters.POLICY}
    )
    assert isinstance(view, dict)
    found = view["warnings"]
    assert isinstance(found, list)
    return found


def _endpoint(served: capabilities.Shows, path: str) -> views.Endpoint:
    return next(endpoint for endpoint in served.shown().endpoints if endpoint.path == path)
