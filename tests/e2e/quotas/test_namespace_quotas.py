"""Quotas of namespaces (scheduling.x-k8s.io) with a real kube-scheduler: what is lent, refused and returned.

Namespaces a and b are guaranteed two pods each; a may use five, b three.
"""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

DEFINITION = "elasticquotas.scheduling.x-k8s.io"
MANIFEST = pathlib.Path(__file__).parents[1] / "manifests" / "namespacequotas.yaml"
MOST = {"a": 5, "b": 3}
TOGETHER = "elastic quota a/quota: no capacity in cpu within the mins of all quotas"
OWN_MAX = "elastic quota b/quota: no capacity in cpu"


def cpu(pods: int) -> str:
    """The request of so many pods, as the API server shows it."""
    return f"{10 * pods}m" if pods else "0"


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """Two extenders with ElasticQuota, and the quotas of both namespaces."""
    cluster.kubectl("apply", "-f", MANIFEST)
    cluster.await_done("wait", "--for=condition=established", f"crd/{DEFINITION}")
    with installations.Installation(cluster, replicas=2, PLUGINS_ENABLED="*,ElasticQuota") as installed:
        cluster.add_nodes("node-1", "node-2")
        for namespace, most in MOST.items():
            cluster.add_namespace(namespace)
            cluster.apply(
                {
                    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                    "kind": "ElasticQuota",
                    "metadata": {"name": "quota", "namespace": namespace},
                    "spec": {"min": {"cpu": cpu(2)}, "max": {"cpu": cpu(most)}},
                }
            )
        polling.eventually(
            lambda: len(installed.ask("/apis/v1/plugins/ElasticQuota/sigsquotas")["items"]) == len(MOST),
            "both quotas are known",
            within=30,
        )
        installed.start_scheduler()
        yield installed


def create(cluster: clusters.Cluster, namespace: str, *names: str) -> None:
    cluster.apply(*[workloads.pod(namespace, name) for name in names])


def settled(cluster: clusters.Cluster, **expected: tuple[int, int]) -> None:
    """Wait for these numbers of running and of pending pods per namespace."""

    def state() -> dict[str, tuple[int, int]]:
        return {
            namespace: (
                len(workloads.running(cluster, namespace)),
                len(workloads.pending(cluster, namespace)),
            )
            for namespace in expected
        }

    polling.eventually(lambda: state() == expected, f"{expected}", within=60, seen=state)


def refused(cluster: clusters.Cluster, namespace: str, reason: str) -> None:
    """Wait until every pending pod of the namespace has the reason in its condition."""

    def conditions() -> list[api_client.Object]:
        return [workloads.scheduled(pod) for pod in workloads.pending(cluster, namespace)]

    def matches() -> bool:
        found = conditions()
        return bool(found) and all(
            one.get("reason") == "Unschedulable" and f"{reason}." in one["message"] for one in found
        )

    polling.eventually(matches, f"each pending pod has: {reason}", within=60, seen=conditions)


def shown(cluster: clusters.Cluster, **pods: int) -> None:
    """Wait until the status of each quota shows what so many pods use."""

    def used() -> dict[str, str]:
        path = "jsonpath={.status.used.cpu}"
        return {
            namespace: cluster.kubectl("-n", namespace, "get", f"{DEFINITION}/quota", "-o", path)
            for namespace in pods
        }

    wanted = {namespace: cpu(number) for namespace, number in pods.items()}
    polling.eventually(lambda: used() == wanted, f"the statuses show {wanted}", within=60, seen=used)


@pytest.mark.scenario("EQ-22")
def test_a_namespace_borrows_what_the_mins_of_others_leave_and_the_rest_waits(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    create(cluster, "b", "b-0")
    settled(cluster, b=(1, 0))
    create(cluster, "a", *[f"a-{number}" for number in range(5)])
    settled(cluster, a=(3, 2), b=(1, 0))
    refused(cluster, "a", TOGETHER)
    shown(cluster, a=3, b=1)
    found = topolog.ask("/apis/v1/plugins/ElasticQuota/sigsquotas/a/quota", extender=1)
    assert (found["borrowed"], found["headroom"]) == ({"cpu": cpu(1)}, {"cpu": "0"})


@pytest.mark.scenario("EQ-22")
def test_a_waiting_pod_starts_when_one_of_another_namespace_ends(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.kubectl("-n", "b", "delete", "pod", "b-0", "--wait=false")
    settled(cluster, a=(4, 1), b=(0, 0))
    refused(cluster, "a", TOGETHER)
    shown(cluster, a=4, b=0)


@pytest.mark.scenario("EQ-22")
def test_its_own_max_limits_a_namespace_while_others_leave_more(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.await_done("-n", "a", "delete", "pods", "--all")
    create(cluster, "b", *[f"late-{number}" for number in range(4)])
    settled(cluster, b=(3, 1))
    refused(cluster, "b", OWN_MAX)
    shown(cluster, a=0, b=3)
