"""Koordinator's annotations on quotas, written under the rights of the component, and nothing beside them."""

import copy
import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, elastic_quotas, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

COMPONENT = pathlib.Path(__file__).parents[3] / "deploy" / "components" / "quota-annotations"
NAMESPACE = "annotated"
QUOTAS = elastic_quotas.RESOURCE
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{QUOTAS}"
PATH = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{NAMESPACE}/elasticquotas"
PREFIX = "quota.scheduling.koordinator.sh/"
CONTROLLER = "system:serviceaccount:topolog-system:topolog-controller"


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """With the argument and the component, and Koordinator's definition: it has no status subresource."""
    elastic_quotas.define(cluster)
    koordinators = copy.deepcopy(cluster.api().get(DEFINITION))
    koordinators["spec"]["versions"][0]["subresources"] = {}
    cluster.api().replace(DEFINITION, koordinators)
    for name in ("rbac", "admission"):
        cluster.kubectl("apply", "-f", COMPONENT / f"{name}.yaml")
    args = json.dumps({"ElasticQuota": {"koordinator_annotations": True}})
    with installations.Installation(
        cluster, PLUGINS_ENABLED="*,ElasticQuota", PLUGINS_ARGS=args
    ) as installed:
        cluster.add_namespace(NAMESPACE)
        cluster.add_nodes("n1", capacity={"cpu": "10", "memory": "64Gi", "pods": "110"})
        installed.start_scheduler()
        yield installed


def quota(name: str, least: int, most: int) -> api_client.Object:
    made = elastic_quotas.quota(NAMESPACE, name, least=least, most=most)
    made["metadata"]["annotations"] = {
        f"{PREFIX}shared-weight": '{"cpu": "3"}',
        "team.example/owner": "ops",
    }
    return made


def add_pod(cluster: clusters.Cluster, name: str, of: str, cores: int) -> None:
    pod = workloads.pod(NAMESPACE, name)
    pod["metadata"]["labels"] = {f"{PREFIX}name": of}
    (container,) = pod["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": str(cores)}}
    cluster.apply(pod)


def written(cluster: clusters.Cluster, name: str) -> dict[str, str]:
    """Name of the annotation -> cores, and what the status shows as used."""
    found = cluster.api().get(f"{PATH}/{name}")
    given = found["metadata"]["annotations"]
    cores = {
        key.removeprefix(PREFIX): json.loads(value)["cpu"]
        for key, value in given.items()
        if key.startswith(PREFIX) and not key.endswith("/shared-weight")
    }
    return cores | {"used": found.get("status", {}).get("used", {}).get("cpu", "")}


def test_they_follow_the_requests_of_all_quotas(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.apply(quota("blue", 2, 8), quota("green", 2, 8))
    add_pod(cluster, "blue-0", "blue", 6)
    expected = {
        "runtime": "6",
        "request": "6",
        "child-request": "6",
        "guaranteed": "0",
        "allocated": "0",
        "non-preemptible-request": "0",
        "non-preemptible-used": "0",
        "used": "6",
    }

    def blue() -> dict[str, str]:
        return written(cluster, "blue")

    polling.eventually(lambda: blue() == expected, "what the pod requests", within=60, seen=blue)
    before = cluster.api().get(f"{PATH}/blue")
    # What others request changes the runtime of this one.
    add_pod(cluster, "green-0", "green", 4)
    add_pod(cluster, "blue-1", "blue", 3)
    expected |= {"request": "9", "child-request": "9"}
    polling.eventually(lambda: blue() == expected, "a request that waits", within=60, seen=blue)
    after = cluster.api().get(f"{PATH}/blue")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"]["team.example/owner"] == "ops"
    events = topolog.ask(f"/apis/v1/events?object=quota:{NAMESPACE}/blue&limit=100")["items"]
    assert [one["type"] for one in events] == ["ObjectObserved"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"spec": {"max": {"cpu": "100"}}}, "the specification"),
        ({"metadata": {"labels": {f"{PREFIX}parent": "root"}}}, "the labels"),
        ({"metadata": {"annotations": {f"{PREFIX}shared-weight": '{"cpu": "99"}'}}}, "annotations"),
        ({"metadata": {"annotations": {f"{PREFIX}namespaces": '["others"]'}}}, "annotations"),
        ({"metadata": {"annotations": {"team.example/owner": None}}}, "annotations"),
        ({"metadata": {"finalizers": ["a.example/b"]}}, "holds back its deletion"),
    ],
    ids=["limits", "a label", "a weight", "namespaces", "another annotation", "a finalizer"],
)
def test_the_controller_may_change_nothing_else(
    cluster: clusters.Cluster, topolog: installations.Installation, changed: api_client.Object, why: str
) -> None:
    shown = cluster.kubectl(
        *("-n", NAMESPACE, "patch", QUOTAS, "green", "--type=merge", "-p", json.dumps(changed)),
        *("--as", CONTROLLER, "--dry-run=server"),
        refused=True,
    )
    assert "topolog-quota-annotations" in shown
    assert why in shown
