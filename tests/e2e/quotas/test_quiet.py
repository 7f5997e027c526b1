"""Refused pods cause few calls: kube-scheduler retries them only when capacity becomes available."""

import time
from collections import Counter

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, quota_witness, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE = "quiet"
NODES = tuple(f"node-{number:03}" for number in range(255))
DOMAINS = {name: "a" if number < 100 else "b" for number, name in enumerate(NODES)}
SECONDS = 10.0


@pytest.fixture(scope="module", autouse=True)
def furnished(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """255 nodes, and two policies that are used up by five pods each."""
    for domain in ("a", "b"):
        names = [name for name in NODES if DOMAINS[name] == domain]
        cluster.add_nodes(*names, labels={"zone": domain})
    cluster.add_namespace(NAMESPACE)
    topolog.start_scheduler()
    cluster.apply(
        workloads.policy(NAMESPACE, "one", "zone", "one", a=5),
        workloads.policy(NAMESPACE, "two", "zone", "two", a=2, b=3),
        workloads.deployment(NAMESPACE, "one", 5, policy="one"),
        workloads.deployment(NAMESPACE, "two", 5, policy="two"),
    )
    polling.eventually(lambda: len(workloads.running(cluster, NAMESPACE)) == 10, "ten run", within=20)


def asked(topolog: installations.Installation, pods: list[api_client.Object]) -> Counter[str]:
    """Pod -> number of filter calls."""
    names = {f"{NAMESPACE}/{workloads.name(pod)}" for pod in pods}
    calls = [line["pod"] for line in topolog.extenders[0].calls() if line["verb"] == "filter"]
    return Counter({name: 0 for name in names}) + Counter(name for name in calls if name in names)


def test_fifty_refused_pods_are_filtered_at_most_three_times(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    for name in ("one", "two"):
        cluster.kubectl("-n", NAMESPACE, "scale", f"deployment/{name}", "--replicas=30")

    def refused() -> int:
        pods = workloads.pending(cluster, NAMESPACE)
        return sum(workloads.scheduled(pod).get("reason") == "Unschedulable" for pod in pods)

    started = time.monotonic()
    polling.eventually(lambda: refused() == 50, "fifty are refused", within=20, seen=refused)
    pods = workloads.pending(cluster, NAMESPACE)
    polling.throughout(
        lambda: len(workloads.running(cluster, NAMESPACE)) == 10,
        "ten run",
        during=SECONDS - min(SECONDS, time.monotonic() - started),
        every=0.5,
    )
    # All calls since the first, including the attempt that refused the pod.
    calls = asked(topolog, pods)
    assert len(calls) == 50
    assert max(calls.values()) <= 3, calls


@pytest.mark.scenario("WP-13")
def test_an_edited_policy_wakes_the_right_number_of_pods(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """kube-scheduler itself would try them again after five minutes."""
    quotas = [{"name": "a", "replicas": 9}, {"name": "b", "replicas": 8}]
    path = f"/apis/kosmos.io/v1alpha1/namespaces/{NAMESPACE}/workloadpolicies/two"
    with quota_witness.Overseer(cluster.api(), NAMESPACE, DOMAINS) as overseer:
        before = overseer.now()
        cluster.api().patch(path, {"spec": {"allocationPolicy": quotas}})
        expected = {"a": before["a"] + 7, "b": before["b"] + 5}
        polling.eventually(
            lambda: overseer.now() == expected, f"{expected} are placed", within=30, seen=overseer.now
        )
        polling.throughout(lambda: overseer.now() == expected, "no more are placed", during=1.0)
        assert overseer.peak == expected
    assert topolog.quotas(NAMESPACE, "two") == {"a": 9, "b": 8}
