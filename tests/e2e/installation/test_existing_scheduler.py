"""The overlay existing-scheduler, with a real kube-scheduler that is set up as the page describes.

It runs in the network of the nodes, like a static pod: it reaches the extenders by the cluster IP of their
Service, with the certificate of the Secret topolog-scheduler-tls.
tests/e2e/installation/test_installation.py describes the nodes.
"""

import base64
import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import clusters, component_flags, kube_schedulers, readiness, workloads
from tests.support.e2e.nodes import process_kubelets

LACKING = process_kubelets.lacking()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
PLAIN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """Two nodes, the overlay, and the scheduler."""
    with clusters.Cluster(binary, tokens=True) as cluster:
        cluster.start_controller_manager(component_flags.FOR_PROCESSES)
        cluster.start_kubelet(except_in=readiness.HOME)
        cluster.start_scheduler("default", PLAIN)
        for zone in ("a", "b"):
            cluster.add_nodes(f"n-{zone}", labels={"zone": zone})
        cluster.apply(readiness.volume(cluster.folder / "disk"))
        kubelet = cluster.start_process_kubelet(readiness.HOME)
        cluster.kubectl("apply", "-k", DEPLOY / "overlays" / "existing-scheduler")
        readiness.await_ready(cluster)
        start_scheduler(cluster, kubelet)
        yield cluster


def start_scheduler(cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet) -> None:
    api = cluster.api()
    files = api.get(f"/api/v1/namespaces/{readiness.HOME}/secrets/topolog-scheduler-tls")["data"]
    folder = cluster.folder / "scheduler-tls"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(base64.b64decode(content))
    address = api.get(f"/api/v1/namespaces/{readiness.HOME}/services/topolog-extender")["spec"]["clusterIP"]
    config = kube_schedulers.configuration(
        DEPLOY / "scheduler" / "kube-scheduler-service.yaml",
        extender=f"https://{address}",
        ca=folder / "ca.crt",
        certificate=folder / "tls.crt",
        key=folder / "tls.key",
    )
    cluster.start_scheduler_on_a_node(kubelet, config)


def test_a_required_policy_holds_for_the_existing_scheduler(cluster: clusters.Cluster) -> None:
    cluster.apply(workloads.policy("default", "web", "zone", "web", a=1, b=3))
    cluster.apply(workloads.deployment("default", "web", 6, policy="web"))

    def nodes() -> list[str]:
        return sorted(pod["spec"]["nodeName"] for pod in workloads.running(cluster, "default", "of=web"))

    polling.eventually(lambda: nodes() == ["n-a", "n-b", "n-b", "n-b"], "four run", within=90, seen=nodes)

    def refused() -> list[str]:
        found = [workloads.scheduled(pod) for pod in workloads.pending(cluster, "default", "of=web")]
        return [each.get("reason", "") for each in found]

    polling.eventually(
        lambda: refused() == ["Unschedulable"] * 2, "both others are refused", within=60, seen=refused
    )
    assert nodes() == ["n-a", "n-b", "n-b", "n-b"]


def test_a_rolling_restart_of_the_extenders_loses_no_pod(cluster: clusters.Cluster) -> None:
    name = "deployment/topolog-extender"
    cluster.kubectl("-n", readiness.HOME, "rollout", "restart", name)
    cluster.apply(workloads.policy("default", "load", "zone", "load", a=20, b=20))
    cluster.apply(workloads.deployment("default", "load", 40, policy="load"))
    cluster.await_done("-n", readiness.HOME, "rollout", "status", name, within=110)

    def running() -> int:
        return len(workloads.running(cluster, "default", "of=load"))

    polling.eventually(lambda: running() == 40, "all run", within=120, every=0.5, seen=running)
    nodes = [pod["spec"]["nodeName"] for pod in workloads.running(cluster, "default", "of=load")]
    assert (nodes.count("n-a"), nodes.count("n-b")) == (20, 20)
