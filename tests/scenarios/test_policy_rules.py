"""The decision table of workload policies: every odd node, quota, policy and label."""

import random

import msgspec
import pytest

from app.domain import model, verdicts
from app.framework import capabilities
from app.plugins.workload_policy import plugin
from tests.scenarios import clusters, driving

ODD = (clusters.node("unlisted", {clusters.KEY: "cloud"}), clusters.node("unlabelled"))
HOST = clusters.HOSTS[0]
SAYS = "workload policy workload-test/workload-policy-test:"


def pod(labels: dict[str, str] | None = None) -> model.Pod:
    return clusters.pod("replica", clusters.REPLICA if labels is None else labels)


def details(trace: verdicts.Trace) -> dict[str, frozenset[str]]:
    return dict(trace.refusals[0].details)


@pytest.mark.scenario("WP-10")
def test_required_refuses_unlisted_and_unlabelled_nodes() -> None:
    cluster = driving.Cluster(*clusters.f6(), *ODD, clusters.policy(required=True))
    trace = cluster.filter(pod())
    assert trace.refused == {"unlisted", "unlabelled"}
    assert set(trace.reasons().values()) == {f"{SAYS} no room on these nodes (member 0/1, host 0/3)"}
    assert details(trace) == {
        "domain cloud is not listed": frozenset({"unlisted"}),
        "no label workload-test": frozenset({"unlabelled"}),
    }


@pytest.mark.scenario("WP-10")
def test_preferred_allows_unlisted_and_unlabelled_nodes_with_nothing() -> None:
    cluster = driving.Cluster(*clusters.f6(), *ODD, clusters.policy())
    assert not cluster.filter(pod()).refused
    scores = cluster.score(pod())
    assert (scores["unlisted"], scores["unlabelled"], scores[HOST]) == (0, 0, 10)


@pytest.mark.scenario("WP-10")
def test_strict_domains_refuse_as_kosmos_does() -> None:
    policy = clusters.policy({"member": 0, "host": 1}, strict=True)
    cluster = driving.Cluster(*clusters.f6(), *ODD, policy)
    cluster.see(clusters.pod("running", clusters.REPLICA, node=HOST))
    trace = cluster.filter(pod())
    assert trace.refused == {"unlisted", "unlabelled"}  # not the reached ones: the quotas stay soft
    assert set(trace.reasons().values()) == {f"{SAYS} only nodes with workload-test in (member, host)"}


@pytest.mark.scenario("WP-10")
def test_quota_zero_is_refused_if_required_and_a_last_resort_if_preferred() -> None:
    quotas = {"member": 0, "host": 1}
    cluster = driving.Cluster(*clusters.f6(), clusters.policy(quotas, required=True))
    assert cluster.filter(pod()).kept == frozenset(clusters.HOSTS)
    assert details(cluster.filter(pod())) == {"member: 0/0": frozenset(clusters.MEMBERS)}
    cluster.see(clusters.policy(quotas))
    cluster.see(clusters.pod("running", clusters.REPLICA, node=HOST))
    assert not cluster.filter(pod()).refused
    assert set(cluster.score(pod()).values()) == {0}
    assert cluster.only(pod()) in clusters.HOSTS


@pytest.mark.scenario("WP-10")
@pytest.mark.parametrize(
    "errors",
    [("replicas of host is -1; it must be 0 or more",), ("spec is missing",), ("a", "b")],
    ids=["replicas -1", "missing spec", "several"],
)
def test_an_invalid_policy_refuses_and_says_why(errors: tuple[str, ...]) -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy(errors=errors))
    assert cluster.why(pod()) == f"{SAYS} invalid: {'; '.join(errors)}"
    assert set(cluster.score(pod()).values()) == {0}


@pytest.mark.scenario("WP-10")
@pytest.mark.parametrize("policy", [None, clusters.policy(errors=("broken",))], ids=["absent", "invalid"])
def test_missing_policies_may_be_ignored(policy: model.WorkloadPolicy | None) -> None:
    lenient = plugin.WorkloadPolicy(missing_policy="ignore")
    cluster = driving.Cluster(*clusters.f6(), *([policy] if policy else []), configured=[lenient])
    assert not cluster.filter(pod()).refused
    assert cluster.schedule(pod(), random.Random(1))
    stray = pod({clusters.LABEL: clusters.POLICY, "app": "other"})
    cluster.see(clusters.policy())
    assert cluster.why(stray).endswith("pod labels do not match its labelSelector")


@pytest.mark.scenario("WP-10")
def test_an_empty_label_names_no_policy() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy())
    empty = pod({**clusters.REPLICA, clusters.LABEL: ""})
    assert cluster.why(empty) == "workload policy workload-test/: not found (the pod's label is empty)"


@pytest.mark.scenario("WP-10")
def test_many_domains_are_counted_not_all_spelled_out() -> None:
    policy = clusters.policy({f"d{number}": 0 for number in range(15)}, required=True)
    cluster = driving.Cluster(*clusters.f6(), policy)
    spelled = ", ".join(f"d{number} 0/0" for number in range(4))
    assert cluster.why(pod()) == f"{SAYS} no room ({spelled} and 11 more)"


@pytest.mark.scenario("WP-18")
def test_the_alias_label_works_and_the_canonical_one_wins() -> None:
    policy = clusters.policy({"host": 1}, required=True)
    other = clusters.policy({"member": 1}, name="other", required=True)
    cluster = driving.Cluster(*clusters.f6(), policy, other)
    alias = {"app": clusters.APP, "workload-policy.kosmos.io": "other"}
    assert cluster.filter(pod(alias)).kept == frozenset(clusters.MEMBERS)
    assert cluster.filter(pod({**alias, clusters.LABEL: clusters.POLICY})).kept == frozenset(clusters.HOSTS)


@pytest.mark.scenario("WP-18")
def test_the_policy_view_warns_of_alias_labels() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy())
    alias = {"app": clusters.APP, "workload-policy.kosmos.io": clusters.POLICY}
    cluster.see(clusters.pod("alias", alias), clusters.pod("both", {**alias, clusters.LABEL: "other"}))
    assert warnings(cluster) == [
        "1 pods name the policy by the alias workload-policy.kosmos.io only; write workload-policy/kosmos.io",
        "1 pods name this policy by workload-policy.kosmos.io and another by workload-policy/kosmos.io,"
        " which wins: workload-test/both",
    ]


@pytest.mark.scenario("WP-21")
def test_a_rolling_update_on_full_quotas_is_stuck_and_the_view_says_so() -> None:
    policy = clusters.policy({"host": 2}, required=True)
    cluster = driving.Cluster(*clusters.f6(), policy)
    old = [
        clusters.pod(f"old-{n}", {**clusters.REPLICA, "pod-template-hash": "aaa"}, node=HOST) for n in (1, 2)
    ]
    new = clusters.pod("new-1", {**clusters.REPLICA, "pod-template-hash": "bbb"})
    cluster.see(*old, new)
    assert cluster.why(new).endswith("no room (host 2/2)")
    (warning,) = warnings(cluster)
    assert warning.startswith(
        "pods of pod-template-hash bbb wait for places that aaa holds: a rolling update"
    )
    cluster.see(msgspec.structs.replace(old[0], terminating=True))
    assert warnings(cluster) == []
    assert cluster.filter(new).kept == frozenset(clusters.HOSTS)


def warnings(cluster: driving.Cluster) -> list[str]:
    """The warnings in the policy's view."""
    (served,) = (served for served in cluster.plugins.serves if served.name == "WorkloadPolicy")
    view = _endpoint(served, "policies/<namespace>/<name>").handle(
        cluster.snapshot, {"namespace": clusters.NAMESPACE, "name": clusters.POLICY}
    )
    assert isinstance(view, dict)
    found = view["warnings"]
    assert isinstance(found, list)
    return found


def _endpoint(served: capabilities.Serves, path: str) -> capabilities.Endpoint:
    return next(endpoint for endpoint in served.endpoints() if endpoint.path == path)
