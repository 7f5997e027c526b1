"""WorkloadPolicies and ElasticQuotas show their counts in their status, against the real API server."""

import contextlib
import copy
import http
import itertools
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, elastic_quotas, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE = "statuses"
POLICY = f"/apis/kosmos.io/v1alpha1/namespaces/{NAMESPACE}/workloadpolicies/one"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloadpolicies.kosmos.io"


QUOTAS = elastic_quotas.RESOURCE
QUOTAS_DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{QUOTAS}"
QUOTAS_PATH = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{NAMESPACE}/elasticquotas"


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """With ElasticQuota, which is not enabled by default."""
    with installations.Installation(cluster, PLUGINS_ENABLED="*,ElasticQuota") as installed:
        elastic_quotas.define(cluster)
        yield installed


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


def events(topolog: installations.Installation, subject: str = f"policy:{NAMESPACE}/one") -> list[str]:
    """The types of the log's events about the policy, or another subject."""
    found = topolog.ask(f"/apis/v1/events?object={subject}&limit=1000")["items"]
    return [one["type"] for one in found]


def test_a_status_follows_the_pods_and_is_not_an_event(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.apply(workloads.policy(NAMESPACE, "one", "zone", "one", a=2, b=1))
    cluster.await_done("-n", NAMESPACE, "wait", "--for=condition=Accepted", "workloadpolicies/one")
    assert status(cluster)["placed"] == 0
    before = events(topolog)
    cluster.apply(workloads.deployment(NAMESPACE, "one", 5, policy="one"))

    def domains() -> list[api_client.Object]:
        found: list[api_client.Object] = status(cluster).get("domains", [])
        return found

    full = [{"name": "a", "desired": 2, "placed": 2}, {"name": "b", "desired": 1, "placed": 1}]
    polling.eventually(lambda: domains() == full, "both domains are full", within=60, seen=domains)
    assert (status(cluster)["placed"], status(cluster)["desired"]) == (3, 3)

    def table() -> list[list[str]]:
        return [line.split() for line in cluster.kubectl("-n", NAMESPACE, "get", "wlp").splitlines()]

    # The pods for which there is no capacity may be observed after those that fill the domains.
    expected = ["one", "3", "3", "2", "True", "False", "zone", "Required"]
    polling.eventually(lambda: table()[1][:-1] == expected, "two pods wait", within=60, seen=table)
    assert table()[0] == [
        "NAME",
        "PLACED",
        "DESIRED",
        "WAITING",
        "ACCEPTED",
        "SATISFIED",
        "TOPOLOGY",
        "TYPE",
        "AGE",
    ]
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
    accepted, satisfied = status(cluster)["conditions"]
    assert (accepted["status"], accepted["reason"]) == ("True", "NoSuchDomain")
    assert "no node has the label zone=moon" in accepted["message"]
    assert (satisfied["status"], satisfied["reason"]) == ("False", "Waiting")


@contextlib.contextmanager
def while_storage_opens() -> Iterator[None]:
    """Excuse a refusal: the API server opens its storage of a kind again when the definition has changed."""
    try:
        yield
    except api_client.ApiError as problem:
        if problem.status != http.HTTPStatus.TOO_MANY_REQUESTS:
            raise


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
        lines = log.read_text(errors="replace").splitlines()
        return sum("has no status subresource" in line and "workloadpolicies" in line for line in lines)

    def reported_after_a_change() -> bool:
        number = len(cluster.pods(NAMESPACE, labels="app=other"))
        cluster.apply(workloads.pod(NAMESPACE, f"other-{number}", app="other"))
        with while_storage_opens():
            cluster.api().patch(POLICY, {"spec": {"labelSelector": {"matchLabels": {"of": f"{number}"}}}})
        return reported() > 0

    polling.eventually(reported_after_a_change, "the controller reports it", within=60, every=1.0)
    assert topolog.controller.ready()
    assert reported() == 1


def quota(name: str, **labels: str) -> api_client.Object:
    """A quota of one core for the pods that name it."""
    prefixed = {f"quota.scheduling.koordinator.sh/{key.replace('_', '-')}": labels[key] for key in labels}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": prefixed},
        "spec": {"min": {"cpu": "1"}, "max": {"cpu": "1"}},
    }


def used(cluster: clusters.Cluster, name: str) -> str:
    """What the quota uses, as people ask for it."""
    path = "jsonpath={.status}"
    return cluster.kubectl("-n", NAMESPACE, "get", f"{QUOTAS}/{name}", "-o", path).strip()


def test_a_quota_shows_what_its_pods_use_and_is_not_an_event(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.apply(quota("team", is_parent="true"))
    cluster.apply(quota("blue", parent="team"))

    def shown() -> list[str]:
        return [used(cluster, name) for name in ("team", "blue")]

    def settled(cpu: str) -> None:
        wanted = [f'{{"used":{{"cpu":"{cpu}"}}}}'] * 2
        polling.eventually(lambda: shown() == wanted, f"both use {cpu}", within=60, seen=shown)

    settled("0")
    for number in range(2):
        pod = workloads.pod(NAMESPACE, f"blue-{number}")
        pod["metadata"]["labels"] = {"quota.scheduling.koordinator.sh/name": "blue"}
        cluster.apply(pod)
        settled(f"{10 * (number + 1)}m")
    for name in ("team", "blue"):
        assert events(topolog, f"quota:{NAMESPACE}/{name}") == ["ObjectObserved"]


def test_koordinators_definition_of_quotas_has_no_status_and_is_reported(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    koordinators = copy.deepcopy(cluster.api().get(QUOTAS_DEFINITION))
    koordinators["spec"]["versions"][0]["subresources"] = {}
    cluster.api().replace(QUOTAS_DEFINITION, koordinators)
    log = topolog.controller.process.log
    numbers = itertools.count()

    def reported() -> int:
        lines = log.read_text(errors="replace").splitlines()
        return sum("has no status subresource" in line and "elasticquotas" in line for line in lines)

    def reported_after_a_change() -> bool:
        with while_storage_opens():
            cluster.api().create(QUOTAS_PATH, quota(f"other-{next(numbers)}"))
        return reported() > 0

    polling.eventually(reported_after_a_change, "the controller reports it", within=60, every=1.0)
    assert topolog.controller.ready()
    assert reported() == 1
