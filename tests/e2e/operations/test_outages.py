"""An outage of the store: pods that need it wait with an event, others are still placed."""

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE = "outage"


@pytest.fixture(scope="module", autouse=True)
def furnished(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """A policy with capacity for all pods."""
    cluster.add_nodes("n1", "n2", labels={"zone": "a"})
    cluster.add_namespace(NAMESPACE)
    topolog.start_scheduler()
    cluster.apply(
        workloads.policy(NAMESPACE, "p", "zone", "app", a=10),
        workloads.deployment(NAMESPACE, "before", 2, policy="p", app="app"),
    )
    cluster.await_done("-n", NAMESPACE, "rollout", "status", "deployment/before")
    polling.eventually(lambda: topolog.quotas(NAMESPACE, "p") == {"a": 2}, "both are counted")
    topolog.store.kill()


def get(cluster: clusters.Cluster, name: str) -> api_client.Object:
    return cluster.api().get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")


def test_a_pod_under_a_hard_policy_gets_an_event_and_is_not_bound(cluster: clusters.Cluster) -> None:
    labels = {"app": "app", workloads.POLICY_LABEL: "p"}
    cluster.apply(workloads.pod(NAMESPACE, "hard", **labels))

    def reported() -> bool:
        events = cluster.events(NAMESPACE, "hard", reason="FailedScheduling")
        return any("topolog: the store is away" in each for each in events)

    polling.eventually(
        reported, "an event with the reason", within=15, seen=lambda: cluster.events(NAMESPACE, "hard")
    )

    def condition() -> api_client.Object:
        return workloads.scheduled(get(cluster, "hard"))

    # kube-scheduler writes it beside the Event.
    polling.eventually(
        lambda: condition().get("reason") == "SchedulerError", "the pod has the condition", seen=condition
    )
    assert "nodeName" not in get(cluster, "hard")["spec"]


def test_a_pod_without_labels_is_bound_all_the_same(cluster: clusters.Cluster) -> None:
    cluster.apply(workloads.pod(NAMESPACE, "plain"))
    polling.eventually(
        lambda: get(cluster, "plain")["status"]["phase"] == "Running",
        "it runs",
        within=20,
        seen=lambda: get(cluster, "plain")["status"],
    )
    assert "nodeName" not in get(cluster, "hard")["spec"]


def test_everything_recovers_once_the_store_is_back(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    topolog.store.start()
    cluster.apply(workloads.pod(NAMESPACE, "after"))
    for name in ("hard", "after"):
        cluster.await_done("-n", NAMESPACE, "wait", f"pod/{name}", "--for=condition=Ready")
    for part in (topolog.recorder, topolog.controller, *topolog.extenders):
        part.await_ready()
    polling.eventually(
        lambda: topolog.quotas(NAMESPACE, "p") == {"a": 3} == topolog.counts(NAMESPACE, "p", ["a"]),
        "pods placed meanwhile are counted",
        seen=lambda: topolog.quotas(NAMESPACE, "p"),
    )
    # The pod that was bound without the store is in the log by now.
    shown = topolog.ask(f"/apis/v1/pods/{NAMESPACE}/plain")
    assert shown["node"] == get(cluster, "plain")["spec"]["nodeName"]
