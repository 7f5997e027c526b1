"""Preemption: useless evictions do not happen, useful ones do."""

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE, POLICY = "preempting", "p"
NODES = tuple(f"h{number}" for number in range(1, 5))
FULL = f"workload policy {NAMESPACE}/{POLICY}: no capacity (host 3/3)"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module", autouse=True)
def furnished(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """Four nodes for two pods each, one of them free, and a policy that three pods have used up."""
    cluster.add_nodes(*NODES, labels={"kind": "host"}, capacity={"cpu": "2", "memory": "8Gi", "pods": "10"})
    cluster.add_namespace(NAMESPACE)
    for name, value in (("high", 1000), ("low", 1)):
        cluster.apply(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    cluster.apply(workloads.policy(NAMESPACE, POLICY, "kind", "app", host=3))
    topolog.start_scheduler()
    for number in (1, 2, 3):
        run(cluster, f"counted-{number}", "high", node=f"h{number}", app="app")
        run(cluster, f"unrelated-{number}", "low", node=f"h{number}")
    polling.eventually(lambda: topolog.quotas(NAMESPACE, POLICY) == {"host": 3}, "all are counted")


def pod(name: str, priority: str, **labels: str) -> api_client.Object:
    """A pod that takes half a node."""
    made = workloads.pod(NAMESPACE, name, **labels)
    made["spec"] |= {
        "priorityClassName": priority,
        "containers": workloads.spec("", cpu="1")["containers"],
    }
    return made


def run(cluster: clusters.Cluster, name: str, priority: str, *, node: str, **labels: str) -> None:
    """Create a pod that already runs on a node."""
    made = pod(name, priority, **labels)
    made["spec"]["nodeName"] = node
    cluster.api().create(PODS, made)
    polling.eventually(lambda: cluster.api().get(f"{PODS}/{name}")["status"]["phase"] == "Running", "it runs")


def preemptor(cluster: clusters.Cluster, name: str) -> str:
    """A pod of the policy and of high priority, whose resource requests only h4 can satisfy."""
    made = pod(name, "high", app="app")
    made["metadata"]["labels"][workloads.POLICY_LABEL] = POLICY
    cluster.apply(made)
    return f"{PODS}/{name}"


@pytest.mark.scenario("PR-4", "PR-25")
def test_no_pod_is_evicted_in_vain(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    before = {workloads.name(each) for each in workloads.running(cluster, NAMESPACE)}
    path = preemptor(cluster, "refused")

    def waits() -> bool:
        return FULL in workloads.scheduled(cluster.api().get(path)).get("message", "")

    polling.eventually(waits, "it is pending with the reason", seen=lambda: cluster.api().get(path)["status"])
    # kube-scheduler asked on which nodes evictions would help, and the answer was: on none.
    asked = polling.eventually(
        lambda: [line for line in topolog.extenders[0].calls() if line["verb"] == "preempt"],
        "kube-scheduler calls preempt",
    )
    assert {(line["candidates"], line["kept"]) for line in asked} == {(3, 0)}
    polling.throughout(
        lambda: {workloads.name(each) for each in workloads.running(cluster, NAMESPACE)} == before,
        "no pod is evicted",
        during=2.0,
    )
    assert waits()
    assert "nominatedNodeName" not in cluster.api().get(path)["status"]
    cluster.api().delete(path)


@pytest.mark.scenario("PR-3")
def test_an_eviction_that_frees_capacity_happens(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    for name in ("counted-3", "unrelated-3"):
        cluster.api().delete(f"{PODS}/{name}", grace=0)
    run(cluster, "counted-low", "low", node="h3", app="app")
    run(cluster, "counted-4", "high", node="h3")
    # The count was the same before. All pods come by one watch: those before the last one are recorded too.
    polling.eventually(lambda: topolog.find(f"/apis/v1/pods/{NAMESPACE}/counted-4"), "the last is recorded")
    assert topolog.quotas(NAMESPACE, POLICY) == {"host": 3}

    path = preemptor(cluster, "useful")
    polling.eventually(
        lambda: cluster.api().get(path)["status"]["phase"] == "Running",
        "it runs",
        seen=lambda: cluster.api().get(path),
    )
    assert cluster.api().find(f"{PODS}/counted-low") is None
    running = {workloads.name(each) for each in workloads.running(cluster, NAMESPACE)}
    assert {"unrelated-1", "unrelated-2", "counted-4"} < running  # evicting them would have been useless
    assert topolog.quotas(NAMESPACE, POLICY) == {"host": 3}
