"""The test harness itself: a real control plane runs real workloads, with the manifests of deploy/.

No process of Topolog runs here. If a test in this file fails, the other end-to-end tests cannot pass.
"""

import pathlib

import pytest

from tests.e2e import control_plane_builds
from tests.support import polling
from tests.support.e2e import api_client, clusters

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # the first build takes minutes

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
PLAIN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def deployment(name: str, replicas: int) -> api_client.Object:
    labels = {"app": name}
    container = {"name": "c", "image": "example/app:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "smoke"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_a_deployment_runs(cluster: clusters.Cluster) -> None:
    cluster.kubectl("apply", "-k", DEPLOY / "crds")
    cluster.kubectl("apply", "-k", DEPLOY / "rbac")
    cluster.add_nodes("n1", "n2", labels={"zone": "a"})
    cluster.add_nodes("n3", labels={"zone": "b"}, capacity={"cpu": "1", "memory": "1Gi", "pods": "2"})
    cluster.start_scheduler("default", PLAIN)
    cluster.add_namespace("smoke")

    cluster.apply(deployment("web", 6))
    cluster.await_done("-n", "smoke", "rollout", "status", "deployment/web")

    pods = cluster.pods("smoke", labels="app=web")
    assert len(pods) == 6
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert {pod["spec"]["nodeName"] for pod in pods} <= {"n1", "n2", "n3"}

    def scheduled() -> list[str]:
        return cluster.events("smoke", pods[0]["metadata"]["name"], reason="Scheduled")

    polling.eventually(scheduled, "the Event of the scheduler")
    assert len(scheduled()) == 1


def test_deleted_pods_end_and_are_replaced(cluster: clusters.Cluster) -> None:
    before = {pod["metadata"]["uid"] for pod in cluster.pods("smoke")}
    cluster.await_done("-n", "smoke", "delete", "pod", "--all")

    def replaced() -> bool:
        after = cluster.pods("smoke")
        running = {pod["metadata"]["uid"] for pod in after if pod["status"]["phase"] == "Running"}
        return len(after) == len(running) == 6 and not running & before

    polling.eventually(replaced, "six new pods run", within=30)
    cluster.kubectl("-n", "smoke", "scale", "deployment/web", "--replicas=0")
    polling.eventually(lambda: not cluster.pods("smoke"), "all pods are gone", within=30)


def test_a_test_controls_the_kubelet(cluster: clusters.Cluster) -> None:
    assert cluster.kubelet is not None
    cluster.kubelet.ignore("smoke", "one")
    pod = {"metadata": {"name": "one"}, "spec": deployment("one", 1)["spec"]["template"]["spec"]}
    cluster.api().create("/api/v1/namespaces/smoke/pods", pod)
    path = "/api/v1/namespaces/smoke/pods/one"

    polling.eventually(lambda: "nodeName" in cluster.api().get(path)["spec"], "it is bound")
    polling.throughout(lambda: cluster.api().get(path)["status"]["phase"] == "Pending", "Pending", during=0.5)
    cluster.kubelet.attend("smoke", "one")
    polling.eventually(lambda: cluster.api().get(path)["status"]["phase"] == "Running", "it runs")
    cluster.kubelet.finish("smoke", "one")
    assert cluster.api().get(path)["status"]["phase"] == "Succeeded"


def test_a_job_succeeds(cluster: clusters.Cluster) -> None:
    assert cluster.kubelet is not None
    template = deployment("work", 1)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 4, "completions": 4, "template": template}
    cluster.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "work", "namespace": "smoke"},
            "spec": spec,
        }
    )

    def running() -> list[api_client.Object]:
        pods = cluster.pods("smoke", labels="job-name=work")
        return pods if [pod["status"]["phase"] for pod in pods] == ["Running"] * 4 else []

    for pod in polling.eventually(running, "four workers run", within=30):
        cluster.kubelet.finish("smoke", pod["metadata"]["name"])
    cluster.await_done("-n", "smoke", "wait", "job/work", "--for=condition=Complete")


def test_policies_have_defaults_and_bounds(cluster: clusters.Cluster) -> None:
    policy: api_client.Object = {
        "apiVersion": "kosmos.io/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": "p", "namespace": "smoke"},
        "spec": {
            "topologyKey": "zone",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "allocationPolicy": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 3}],
        },
    }
    cluster.apply(policy)
    assert "Preferred" in cluster.kubectl("-n", "smoke", "get", "wlp")
    shown = cluster.kubectl("-n", "smoke", "get", "kosmos-io", "-o", "jsonpath={.items[*].spec}")
    assert '"allocationMethod":"Balance"' in shown
    assert '"allocationType":"Preferred"' in shown


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("allocationType", "require", id="type"),
        pytest.param("allocationMethod", "fill", id="method"),
        pytest.param("topologyKey", "", id="key"),
        pytest.param("allocationPolicy", [], id="no-domain"),
        pytest.param("allocationPolicy", [{"name": "a", "replicas": -1}], id="negative"),
        pytest.param("allocationPolicy", [{"name": "a", "replicas": 1}] * 2, id="twice"),
        pytest.param("labelSelector", None, id="no-selector"),
    ],
)
def test_an_invalid_policy_is_refused(cluster: clusters.Cluster, field: str, value: object) -> None:
    spec: api_client.Object = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "allocationPolicy": [{"name": "a", "replicas": 1}],
    } | {field: value}
    policy = {
        "apiVersion": "kosmos.io/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": "bad"},
        "spec": {name: content for name, content in spec.items() if content is not None},
    }
    with pytest.raises(api_client.ApiError) as caught:
        cluster.api().create("/apis/kosmos.io/v1alpha1/namespaces/smoke/workloadpolicies", policy)
    assert caught.value.reason == "Invalid"
    assert field in caught.value.message


def test_the_control_plane_reports_its_version(cluster: clusters.Cluster) -> None:
    assert cluster.api().get("/version")["gitVersion"] == f"v{control_plane_builds.selected()}"


def test_a_killed_api_server_comes_back(cluster: clusters.Cluster) -> None:
    cluster.api_server.kill()
    cluster.api_server.start()
    cluster.await_api_server()

    cluster.kubectl("-n", "smoke", "scale", "deployment/web", "--replicas=3")
    cluster.await_done("-n", "smoke", "rollout", "status", "deployment/web")
