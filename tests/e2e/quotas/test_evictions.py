"""What a quota reclaims is evicted through the Eviction API, under the right of the component alone."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, component_flags, elastic_quotas, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE = "evicting"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BUDGET = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/kept"
VIEW = "/apis/v1/plugins/ElasticQuota/quotas/team"
CONTROLLER = "system:serviceaccount:topolog-system:topolog-controller"


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """Without the disruption controller: the test writes the status of the budget."""
    others = [one for one in component_flags.CONTROLLERS if one != "disruption-controller"]
    with clusters.Cluster(binary) as cluster:
        cluster.start_controller_manager(others)
        cluster.start_kubelet()
        yield cluster


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """A quota of 8 cores on a node of 16, with two pods in it, and a budget for the less important one."""
    with elastic_quotas.evicting(cluster, NAMESPACE, quota_preemption="evict") as installed:
        for name, value in (("low", 1), ("middle", 10), ("urgent", 1000)):
            cluster.apply(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
            )
        cluster.apply(
            elastic_quotas.quota(NAMESPACE, "team", least=8, most=8),
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "kept", "namespace": NAMESPACE},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "low"}}},
            },
        )
        installed.start_scheduler()
        yield installed


def add_pod(cluster: clusters.Cluster, name: str) -> None:
    """A pod of 4 cores in the quota, with the priority of its name."""
    pod = workloads.pod(NAMESPACE, name, app=name)
    pod["metadata"]["labels"][elastic_quotas.LABEL] = "team"
    pod["spec"] |= {"priorityClassName": name, "containers": workloads.spec("", cpu="4")["containers"]}
    cluster.apply(pod)


def running(cluster: clusters.Cluster) -> set[str]:
    return {workloads.name(each) for each in workloads.running(cluster, NAMESPACE)}


def allow(cluster: clusters.Cluster, allowed: int, *, observed: int) -> None:
    status = {
        "disruptionsAllowed": allowed,
        "observedGeneration": observed,
        **dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 1),
    }
    cluster.api().patch(f"{BUDGET}/status", {"status": status})


@pytest.mark.scenario("EQ-26", "TR-17")
def test_the_pod_that_the_view_shows_is_evicted_as_soon_as_its_budget_allows_it(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    for name in ("low", "middle"):
        add_pod(cluster, name)
    polling.eventually(lambda: running(cluster) == {"low", "middle"}, "the quota is full", within=60)
    before = cluster.api().get(f"{PODS}/low")
    # An outdated status: kube-apiserver evicts no pod of the budget, although the number would allow it.
    allow(cluster, 1, observed=0)
    add_pod(cluster, "urgent")

    def shown() -> api_client.Object:
        found: api_client.Object = topolog.ask(VIEW)["preemption"] or {}
        return found

    polling.eventually(lambda: shown() != {}, "the view has the eviction", within=60, seen=shown)
    assert shown() == {
        "action": "evict",
        "pod": f"{NAMESPACE}/urgent",
        "node": "n1",
        "violations": 0,
        "victims": [{"namespace": NAMESPACE, "name": "low", "priority": 1}],
    }

    def refusals() -> list[str]:
        return cluster.events(NAMESPACE, "low", reason="TopologEvictionRefused")

    polling.eventually(lambda: bool(refusals()), "the budget refuses", within=60, seen=refusals)
    assert "disruption budget" in refusals()[0]
    assert running(cluster) == {"low", "middle"}
    assert "deletionTimestamp" not in cluster.api().get(f"{PODS}/low")["metadata"]

    watch = cluster.api().watch(PODS, before["metadata"]["resourceVersion"])
    allow(cluster, 1, observed=cluster.api().get(BUDGET)["metadata"]["generation"])
    polling.eventually(lambda: running(cluster) == {"middle", "urgent"}, "its place is taken", within=90)
    last = next(
        change.object
        for change in watch
        if change.object["metadata"]["name"] == "low" and "deletionTimestamp" in change.object["metadata"]
    )
    watch.close()
    reasons = {one["type"]: one.get("reason") for one in last["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "EvictionByEvictionAPI"
    assert list(cluster.api().get(BUDGET)["status"]["disruptedPods"]) == ["low"]

    def posted() -> list[str]:
        return cluster.events(NAMESPACE, "low", reason="TopologEvicted")

    polling.eventually(lambda: bool(posted()), "the eviction is an Event", within=30)
    (event,) = posted()
    assert event == (f"evicted from node n1: pod {NAMESPACE}/urgent of elastic quota team is more important")
    assert cluster.events(NAMESPACE, "middle", reason="TopologEvicted") == []
    polling.eventually(lambda: shown() == {}, "nothing is left to evict", within=30, seen=shown)


@pytest.mark.usefixtures("topolog")
def test_the_controller_may_evict_and_not_delete(cluster: clusters.Cluster) -> None:
    asked = ("auth", "can-i", "-n", NAMESPACE, "--as", CONTROLLER)
    cluster.kubectl(*asked, "create", "pods", "--subresource=eviction")
    cluster.kubectl(*asked, "delete", "pods", refused=True)
