"""The manifests of deploy/, applied unchanged to a real API server and kube-scheduler.

No process of Topolog runs here: pods are admitted and placed, and the kubelet only reports them as running.
Other tests cover what the processes do with their rights.
"""

import collections
import pathlib
from collections.abc import Iterator

import pytest
import yaml

from app.doctor.scheduler import configurations
from tests.support import manifests, polling
from tests.support.e2e import access_reviews, api_client, clusters, component_flags, kube_schedulers

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # the first build takes minutes

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
HOME = "topolog-system"
PLAIN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}

# Rights in words: VERB RESOURCE[.GROUP][/PART] [NAME NAMESPACE]; without the last two, for any object in the
# namespace default.
LEASES = "leases.coordination.k8s.io"
MAY = {
    "recorder": [
        "list nodes",
        "watch pods",
        "watch workloadpolicies.kosmos.io",
        f"create {LEASES} - {HOME}",
        f"update {LEASES} topolog-recorder {HOME}",
    ],
    "controller": ["watch pods", "patch pods/status", "create events", "patch events.events.k8s.io"],
    "auditor": ["list nodes", "list pods", "get pods", "list workloadpolicies.kosmos.io"],
    "extender": ["get pods", "create pods/binding"],
    "scheduler": [
        "create pods/binding",
        f"create {LEASES} - {HOME}",
        f"update {LEASES} topolog-scheduler {HOME}",
    ],
}
MAY_NOT = {
    "recorder": [
        "create pods/binding",
        "patch pods/status",
        "patch workloadpolicies.kosmos.io",
        "create events",
        "get secrets",
        f"create {LEASES}",
        f"update {LEASES} topolog-scheduler {HOME}",
        f"delete {LEASES} topolog-recorder {HOME}",
    ],
    "controller": ["create pods/binding", "patch pods", "update pods/status", "list nodes", "get secrets"],
    "auditor": ["watch pods", "patch pods", "create pods/binding", f"create {LEASES} - {HOME}"],
    "compactor": ["list nodes", "list pods", "get pods", "get secrets"],
    "extender": [
        "list pods",
        "watch nodes",
        "patch pods",
        "delete pods",
        "patch pods/status",
        "create events",
    ],
}


@pytest.fixture(scope="module")
def deployed(cluster: clusters.Cluster) -> clusters.Cluster:
    """Two nodes and the sidecar overlay, which includes the base."""
    cluster.add_nodes("n1", "n2")
    cluster.start_scheduler("default", PLAIN)
    cluster.kubectl("apply", "-k", DEPLOY / "overlays" / "sidecar")
    for name in ("recorder", "controller", "auditor", "compactor", "extender", "scheduler"):
        cluster.service_account(HOME, f"topolog-{name}")
    return cluster


def account(name: str) -> str:
    return f"system:serviceaccount:{HOME}:topolog-{name}"


def test_the_pods_are_admitted_and_apart(deployed: clusters.Cluster) -> None:
    # The namespace enforces the restricted Pod Security Standard: it rejects a pod that violates it.
    for name in ("recorder", "controller", "auditor", "compactor", "extender"):
        deployed.await_done("-n", HOME, "rollout", "status", f"deployment/topolog-{name}")
    extenders = deployed.pods(HOME, labels="app.kubernetes.io/component=extender")
    assert {pod["spec"]["nodeName"] for pod in extenders} == {"n1", "n2"}
    assert {len(pod["spec"]["containers"]) for pod in extenders} == {2}


def test_an_update_gets_through_on_two_nodes(deployed: clusters.Cluster) -> None:
    deployed.kubectl("-n", HOME, "rollout", "restart", "deployment/topolog-extender")
    deployed.await_done("-n", HOME, "rollout", "status", "deployment/topolog-extender", within=110)


def test_a_drain_takes_one_extender_only(deployed: clusters.Cluster) -> None:
    deployed.kubectl("cordon", "n1", "n2")

    def budget() -> api_client.Object:
        path = f"/apis/policy/v1/namespaces/{HOME}/poddisruptionbudgets/topolog-extender"
        status: api_client.Object = deployed.api().get(path).get("status", {})
        return status

    polling.eventually(lambda: budget().get("disruptionsAllowed") == 1, "one may be evicted", seen=budget)
    one, other = deployed.pods(HOME, labels="app.kubernetes.io/component=extender")
    evict(deployed, one)
    with pytest.raises(api_client.ApiError) as caught:
        evict(deployed, other)
    assert caught.value.reason == "TooManyRequests"
    deployed.kubectl("uncordon", "n1", "n2")
    deployed.await_done("-n", HOME, "rollout", "status", "deployment/topolog-extender", within=110)


def evict(cluster: clusters.Cluster, pod: api_client.Object) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
    path = f"/api/v1/namespaces/{HOME}/pods/{pod['metadata']['name']}/eviction"
    cluster.api().create(path, eviction)


@pytest.mark.parametrize("name", MAY)
def test_each_process_may_do_its_work(deployed: clusters.Cluster, name: str) -> None:
    assert [right for right in MAY[name] if not may(deployed, name, right)] == []


@pytest.mark.parametrize("name", MAY_NOT)
def test_no_process_may_do_more(deployed: clusters.Cluster, name: str) -> None:
    assert [right for right in MAY_NOT[name] if may(deployed, name, right)] == []


def may(cluster: clusters.Cluster, name: str, right: str) -> bool:
    verb, what, called, namespace = (right if right.count(" ") == 3 else f"{right} - default").split()
    kind, _, part = what.partition("/")
    resource, _, group = kind.partition(".")
    return access_reviews.allowed(
        cluster,
        account(name),
        verb=verb,
        group=group,
        resource=resource,
        subresource=part,
        name="" if called == "-" else called,
        namespace=namespace,
    )


def test_the_scheduler_of_the_sidecar_has_the_rights_it_needs(deployed: clusters.Cluster) -> None:
    config = kube_schedulers.configuration(DEPLOY / "scheduler" / "kube-scheduler-sidecar.yaml")
    config.pop("extenders")
    deployed.start_scheduler("sidecar", config, identity=account("scheduler"))
    container = {"name": "c", "image": "example/app:1"}
    pod = {
        "metadata": {"name": "one"},
        "spec": {"schedulerName": "topolog-scheduler", "containers": [container]},
    }
    deployed.api().create("/api/v1/namespaces/default/pods", pod)
    deployed.await_done("wait", "pod/one", "--for=condition=Ready")
    assert "forbidden" not in deployed.schedulers["sidecar"].process.log.read_text()


@pytest.mark.scenario("LX-13")
@pytest.mark.parametrize("variant", ["service", "sidecar", "managed"])
def test_kube_scheduler_takes_its_configuration(deployed: clusters.Cluster, variant: str) -> None:
    path = DEPLOY / "scheduler" / f"kube-scheduler-{variant}.yaml"
    any_pair = deployed.folder / "pki" / "apiserver"  # they are loaded, and never used here
    certificate, key = any_pair.with_suffix(".crt"), any_pair.with_suffix(".key")
    config = kube_schedulers.configuration(
        path, ca=certificate, certificate=certificate, key=key, scheduler_name=f"idle-{variant}"
    )
    running = deployed.start_scheduler(f"idle-{variant}", config).configz()
    # The fields that it answers, and their names, differ between versions of kube-scheduler.
    (effective,) = configurations.read(running, "/configz")
    (given,) = configurations.read(yaml.safe_dump(config), "the file")
    assert effective.entries == given.entries
    assert [one.name for one in effective.profiles] == [one.name for one in given.profiles]
    assert effective.percentage == 100


# A cluster that limits the critical priority classes

CRITICAL = {
    "scopeName": "PriorityClass",
    "operator": "In",
    "values": ["system-node-critical", "system-cluster-critical"],
}
ADMISSION = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [
        {
            "name": "ResourceQuota",
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "ResourceQuotaConfiguration",
                "limitedResources": [{"resource": "pods", "matchScopes": [CRITICAL]}],
            },
        }
    ],
}
"""What `cluster/gce/gci/configure-helper.sh` in Kubernetes configures, and GKE has."""


@pytest.fixture
def limiting(binary: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster with that configuration, and the controller that counts what quotas limit; no node."""
    path = tmp_path / "admission.yaml"
    path.write_text(yaml.safe_dump(ADMISSION))
    with clusters.Cluster(binary, flags=[f"--admission-control-config-file={path}"]) as cluster:
        cluster.start_controller_manager((*component_flags.CONTROLLERS, "resourcequota-controller"))
        yield cluster


def test_all_pods_are_created_where_their_priority_class_requires_a_quota(limiting: clusters.Cluster) -> None:
    critical = {
        "metadata": {"name": "one"},
        "spec": {
            "priorityClassName": "system-cluster-critical",
            "containers": [{"name": "c", "image": "example/app:1"}],
        },
    }
    limiting.add_namespace("without-quota")
    with pytest.raises(api_client.ApiError, match="insufficient quota to match these scopes"):
        limiting.api().create("/api/v1/namespaces/without-quota/pods", critical)
    limiting.kubectl("apply", "-k", DEPLOY / "overlays" / "dev")
    wanted = {
        one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["replicas"]
        for one in manifests.in_overlay("dev", *manifests.WORKLOADS).values()
    }

    def created() -> dict[str, int]:
        labels = (pod["metadata"]["labels"] for pod in limiting.pods(HOME))
        return dict(collections.Counter(each["app.kubernetes.io/component"] for each in labels))

    def counted() -> bool:
        path = f"/api/v1/namespaces/{HOME}/resourcequotas/topolog-critical-pods"
        return "pods" in limiting.api().get(path).get("status", {}).get("used", {})

    polling.eventually(lambda: created() == wanted, "its pods are there", within=60, seen=created)
    polling.eventually(counted, "the quota has counted them", within=60)
    limiting.kubectl("-n", HOME, "delete", "pod", "--all")
    polling.eventually(lambda: created() == wanted, "they are replaced", within=60, seen=created)
