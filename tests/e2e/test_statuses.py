"""WorkloadPolicies show their counts: as kubectl shows them, against the real API server."""

import copy

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE = "statuses"
POLICY = f"/apis/kosmos.io/v1alpha1/namespaces/{NAMESPACE}/workloadpolicies/one"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloadpolicies.kosmos.io"


@pytest.fixture(scope="module", autouse=True)
def furnished(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """Two nodes in different zones."""
    cluster.add_nodes("node-a", labels={"zone": "a"})
    cluster.add_nodes("node-b", labels={"zone": "b"})
    cluster.add_namespace(NAMESPACE)
    topolog.start_scheduler()


def status(cluster: clusters.Cluster) -> api_client.Object:
    found: api_client.Object = cluster.api().get(POLICY).get("status", {})
    return found


def events(topolog: installations.Installation) -> list[str]:
    """The types of the log's events about the policy."""
    found = topolog.ask(f"/apis/v1/events?object=policy:{NAMESPACE}/one&limit=1000")["items"]
    return [one["type"] for one in found]


def test_a_status_follows_the_pods_and_is_no_event(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.apply(workloads.policy(NAMESPACE, "one", "zone", "one", a=2, b=1))
    cluster.kubectl(
        "-n", NAMESPACE, "wait", "--for=condition=Enforced", "workloadpolicies/one", "--timeout=60s"
    )
    assert status(cluster)["placed"] == 0
    before = events(topolog)
    cluster.apply(workloads.deployment(NAMESPACE, "one", 5, policy="one"))

    def domains() -> list[api_client.Object]:
        found: list[api_client.Object] = status(cluster).get("domains", [])
        return found

    full = [{"name": "a", "desired": 2, "placed": 2}, {"name": "b", "desired": 1, "placed": 1}]
    polling.eventually(lambda: domains() == full, "both domains are full", within=60, seen=domains)
    assert (status(cluster)["placed"], status(cluster)["desired"]) == (3, 3)
    table = cluster.kubectl("-n", NAMESPACE, "get", "wlp")
    heads, row = (line.split() for line in table.splitlines())
    assert heads == ["NAME", "TOPOLOGY", "TYPE", "METHOD", "PLACED", "DESIRED", "ENFORCED", "REASON", "AGE"]
    assert row[:-1] == ["one", "zone", "Required", "Balance", "3", "3", "True", "Valid"]
    assert events(topolog) == before


def test_an_edit_is_shown_with_its_generation(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    generation = cluster.api().get(POLICY)["metadata"]["generation"]
    quotas = [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}, {"name": "moon", "replicas": 1}]
    cluster.api().patch(POLICY, {"spec": {"allocationPolicy": quotas}})
    polling.eventually(
        lambda: status(cluster)["observedGeneration"] == generation + 1,
        "the status is about the edited policy",
        within=60,
        seen=lambda: status(cluster),
    )
    assert cluster.api().get(POLICY)["metadata"]["generation"] == generation + 1
    (condition,) = status(cluster)["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "Warning")
    assert "no node has the label zone=moon" in condition["message"]


def test_a_definition_without_the_subresource_is_reported(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """As Kosmos' own definition: everything but the status works."""
    present = cluster.api().get(DEFINITION)
    kosmos = copy.deepcopy(present)
    kosmos["spec"]["versions"][0]["subresources"] = {}
    cluster.api().replace(DEFINITION, kosmos)
    log = topolog.controller.process.log

    def reported() -> int:
        return log.read_text(errors="replace").count("has no status subresource")

    def reported_after_a_change() -> bool:
        number = len(cluster.pods(NAMESPACE, labels="app=other"))
        cluster.apply(workloads.pod(NAMESPACE, f"other-{number}", app="other"))
        cluster.api().patch(POLICY, {"spec": {"labelSelector": {"matchLabels": {"of": f"{number}"}}}})
        return reported() > 0

    polling.eventually(reported_after_a_change, "the controller reports it", within=60, every=1.0)
    assert topolog.controller.ready()
    assert reported() == 1
