"""Workload policies with a real kube-scheduler: the two tests of Kosmos, and changes around them."""

import pathlib
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, quota_witness, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MANIFESTS = pathlib.Path(__file__).parents[1] / "manifests"
NAMESPACE, POLICY, DEPLOYMENT = "workload-test", "workload-policy-test", "deployment/clusterlink-floater-mix"
KEY = "workload-test"
MEMBERS = ("kosmos-member-cluster", "kosmos-cluster1")
HOSTS = ("cnp-paas-ecsc-002", "cnp-paas-ecsc-006", "cnp-paas-ecsc-008", "cnp-paas-ecsc-009")
DOMAINS = dict.fromkeys(MEMBERS, "member") | dict.fromkeys(HOSTS, "host")
FULL = f"workload policy {NAMESPACE}/{POLICY}: no capacity (member 1/1, host 3/3)"
EDITED = "/apis/v1/plugins/WorkloadPolicy/policies/edits/p"


@pytest.fixture(scope="module", autouse=True)
def furnished(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """The six nodes of the Kosmos tests."""
    leaf = [{"key": "kosmos.io/node", "value": "true", "effect": "NoSchedule"}]
    cluster.add_nodes(*MEMBERS, labels={KEY: "member"}, taints=leaf)
    cluster.add_nodes(*HOSTS, labels={KEY: "host"})
    cluster.add_namespace(NAMESPACE)
    topolog.start_scheduler()


@pytest.fixture
def overseer(cluster: clusters.Cluster) -> Iterator[quota_witness.Overseer]:
    with quota_witness.Overseer(cluster.api(), NAMESPACE, DOMAINS) as overseer:
        yield overseer


def apply(cluster: clusters.Cluster, *names: str) -> None:
    for name in names:
        cluster.kubectl("apply", "-f", MANIFESTS / f"{name}.yaml")


def clear(cluster: clusters.Cluster, namespace: str = NAMESPACE) -> None:
    cluster.await_done("-n", namespace, "delete", "deployments,workloadpolicies", "--all")
    polling.eventually(lambda: not cluster.pods(namespace), "all pods are gone", within=30)


def domains(pods: list[api_client.Object]) -> Counter[str]:
    return Counter(DOMAINS[pod["spec"]["nodeName"]] for pod in pods)


def settled(
    cluster: clusters.Cluster, namespace: str, *, waits: int, **expected: int
) -> list[api_client.Object]:
    """Wait for these numbers of running pods per domain and of pending pods; return the running pods."""

    def state() -> tuple[Counter[str], int]:
        return domains(workloads.running(cluster, namespace)), len(workloads.pending(cluster, namespace))

    wanted = (Counter(expected), waits)
    polling.eventually(lambda: state() == wanted, f"{wanted} in {namespace}", within=20, seen=state)
    return workloads.running(cluster, namespace)


def hosts_of(pods: list[api_client.Object]) -> list[api_client.Object]:
    return [pod for pod in pods if pod["spec"]["nodeName"] in HOSTS]


def refused_with(cluster: clusters.Cluster, namespace: str, *texts: str, labels: str = "") -> None:
    """Wait until the condition and the events of every pending pod contain one of these texts."""

    def matches(message: str) -> bool:
        return any(text in message for text in texts)

    def missing_texts() -> list[str]:
        missing = []
        for pod in workloads.pending(cluster, namespace, labels):
            name, condition = workloads.name(pod), workloads.scheduled(pod)
            if condition.get("reason") != "Unschedulable" or not matches(condition["message"]):
                missing.append(f"{name}: condition {condition}")
            for reason in ("FailedScheduling", "TopologRefused"):
                events = cluster.events(namespace, name, reason=reason)
                if not any(map(matches, events)):
                    missing.append(f"{name}: {reason} {events}")
        return missing

    polling.eventually(
        lambda: not missing_texts(), f"every pending pod reports {texts}", within=15, seen=missing_texts
    )


@pytest.mark.scenario("WP-1")
def test_a_preferred_policy_lets_all_six_run(cluster: clusters.Cluster) -> None:
    apply(cluster, "workloadpolicy-example-1", "clusterlink-floater-deployment-mix")
    cluster.await_done("-n", NAMESPACE, "rollout", "status", DEPLOYMENT)
    pods = workloads.running(cluster, NAMESPACE)
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == sorted(DOMAINS)
    assert domains(pods) == {"member": 2, "host": 4}


@pytest.mark.scenario("WP-1")
def test_a_preferred_policy_fills_its_quotas_first(cluster: clusters.Cluster) -> None:
    clear(cluster)
    apply(cluster, "workloadpolicy-example-1", "clusterlink-floater-deployment-mix")
    cluster.kubectl("-n", NAMESPACE, "scale", DEPLOYMENT, "--replicas=0")
    polling.eventually(lambda: not cluster.pods(NAMESPACE), "all pods are gone", within=30)
    for replicas in range(1, 5):  # one by one, as the balancing formula assumes
        cluster.kubectl("-n", NAMESPACE, "scale", DEPLOYMENT, f"--replicas={replicas}")
        cluster.await_done("-n", NAMESPACE, "rollout", "status", DEPLOYMENT)
    assert domains(workloads.running(cluster, NAMESPACE)) == {"member": 1, "host": 3}
    clear(cluster)


@pytest.mark.scenario("WP-2")
def test_a_required_policy_lets_four_run_and_refuses_two_with_the_reason(
    cluster: clusters.Cluster, topolog: installations.Installation, overseer: quota_witness.Overseer
) -> None:
    apply(cluster, "workloadpolicy-example-2", "clusterlink-floater-deployment-mix")
    running = settled(cluster, NAMESPACE, waits=2, member=1, host=3)
    assert len({pod["spec"]["nodeName"] for pod in running}) == 4
    refused_with(cluster, NAMESPACE, FULL)
    assert topolog.quotas(NAMESPACE, POLICY) == {"member": 1, "host": 3}
    overseer.catch_up()
    assert overseer.peak == {"member": 1, "host": 3}


@pytest.mark.scenario("WP-3")
def test_a_deleted_pod_frees_its_capacity_before_it_is_gone(
    cluster: clusters.Cluster, overseer: quota_witness.Overseer
) -> None:
    assert cluster.kubelet is not None
    running = settled(cluster, NAMESPACE, waits=2, member=1, host=3)
    for leaving in (hosts_of(running)[0], next(pod for pod in running if pod not in hosts_of(running))):
        name = workloads.name(leaving)
        cluster.kubelet.ignore(NAMESPACE, name)
        cluster.api().delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
        after = settled(cluster, NAMESPACE, waits=2, member=1, host=3)
        # It is still terminating, and another pod has taken its place.
        assert cluster.api().get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")["metadata"][
            "deletionTimestamp"
        ]
        before = {pod["metadata"]["uid"] for pod in running} - {leaving["metadata"]["uid"]}
        assert before < {pod["metadata"]["uid"] for pod in after}
        cluster.kubelet.attend(NAMESPACE, name)
        running = after
    overseer.catch_up()
    assert overseer.peak == {"member": 1, "host": 3}
    refused_with(cluster, NAMESPACE, FULL)
    clear(cluster)


@pytest.mark.scenario("WP-7")
def test_a_policy_of_another_namespace_does_not_apply(cluster: clusters.Cluster) -> None:
    cluster.add_namespace("elsewhere")
    apply(cluster, "workloadpolicy-example-2")
    cluster.apply(workloads.pod("elsewhere", "veteran", app="clusterlink-floater-mix"))
    cluster.await_done("-n", "elsewhere", "wait", "pod/veteran", "--for=condition=Ready")
    assert cluster.api().get("/api/v1/namespaces/elsewhere/pods/veteran")["spec"]["nodeName"] in HOSTS
    cluster.apply(workloads.deployment("elsewhere", "late", 3, policy=POLICY, app="clusterlink-floater-mix"))
    polling.eventually(lambda: len(workloads.pending(cluster, "elsewhere")) == 3, "three wait")
    refused_with(cluster, "elsewhere", f"workload policy elsewhere/{POLICY}: not found")


@pytest.mark.scenario("WP-7")
def test_a_policy_that_is_created_later_counts_running_pods(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    app = "clusterlink-floater-mix"
    with quota_witness.Overseer(cluster.api(), "elsewhere", DOMAINS) as overseer:
        cluster.apply(workloads.policy("elsewhere", POLICY, KEY, app, host=2))
        settled(cluster, "elsewhere", waits=2, host=2)
        refused_with(cluster, "elsewhere", f"workload policy elsewhere/{POLICY}: no capacity (host 2/2)")
        overseer.catch_up()
        assert overseer.peak == {"host": 2}
    assert topolog.quotas("elsewhere", POLICY) == {"host": 2}
    clear_all(cluster, "elsewhere")


def clear_all(cluster: clusters.Cluster, namespace: str) -> None:
    cluster.kubectl("-n", namespace, "delete", "pod", "--all", "--wait=false")
    clear(cluster, namespace)


@pytest.mark.scenario("WP-12")
def test_counts_follow_the_labels_of_nodes(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    clear(cluster)
    apply(cluster, "workloadpolicy-example-2", "clusterlink-floater-deployment-mix")
    settled(cluster, NAMESPACE, waits=2, member=1, host=3)
    cluster.kubectl("-n", NAMESPACE, "scale", DEPLOYMENT, "--replicas=4")
    running = settled(cluster, NAMESPACE, waits=0, member=1, host=3)
    moved, deleted, _ = sorted(pod["spec"]["nodeName"] for pod in hosts_of(running))

    def counts_become(**expected: int) -> None:
        def state() -> tuple[dict[str, int], dict[str, int]]:
            return topolog.quotas(NAMESPACE, POLICY), topolog.counts(NAMESPACE, POLICY, expected)

        polling.eventually(lambda: state() == (expected, expected), f"counts are {expected}", seen=state)

    counts_become(member=1, host=3)
    cluster.label_node(moved, {KEY: "member"})
    counts_become(member=2, host=2)
    cluster.label_node(moved, {KEY: None})
    counts_become(member=1, host=2)
    cluster.label_node(moved, {KEY: "host"})
    counts_become(member=1, host=3)
    cluster.api().delete(f"/api/v1/nodes/{deleted}")
    counts_become(member=1, host=2)
    cluster.add_nodes(deleted, labels={KEY: "host"})
    counts_become(member=1, host=3)
    assert {pod["metadata"]["uid"] for pod in running} == {
        pod["metadata"]["uid"] for pod in workloads.running(cluster, NAMESPACE)
    }
    clear(cluster)


@pytest.mark.scenario("WP-13")
def test_an_edited_policy_evicts_no_pod_and_applies_to_later_ones(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.add_namespace("edits")
    path = "/apis/kosmos.io/v1alpha1/namespaces/edits/workloadpolicies/p"

    def edit(**replicas: int) -> None:
        listed = [{"name": name, "replicas": count} for name, count in replicas.items()]
        cluster.api().patch(path, {"spec": {"allocationPolicy": listed}})

    tolerant = workloads.deployment("edits", "web", 8, policy="p")
    tolerant["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    cluster.apply(workloads.policy("edits", "p", KEY, "web", member=1, host=3), tolerant)
    running = settled(cluster, "edits", waits=4, member=1, host=3)
    refused_with(cluster, "edits", "workload policy edits/p: no capacity (member 1/1, host 3/3)")

    edit(member=1, host=2)
    polling.eventually(lambda: topolog.ask(EDITED)["desired"] == 3, "the edited policy is in the log")
    leaving = workloads.name(hosts_of(running)[0])
    cluster.api().delete(f"/api/v1/namespaces/edits/pods/{leaving}")
    # The other pods stay, and none replaces the deleted one.
    settled(cluster, "edits", waits=5, member=1, host=2)
    # Pods refused before the deletion was recorded are not retried, because it freed no capacity.
    refused_with(
        cluster,
        "edits",
        "workload policy edits/p: no capacity (member 1/1, host 3/2)",
        "workload policy edits/p: no capacity (member 1/1, host 2/2)",
    )
    assert {workloads.name(pod) for pod in running} - {
        workloads.name(pod) for pod in workloads.running(cluster, "edits")
    } == {leaving}

    edit(member=1, host=5)
    settled(cluster, "edits", waits=2, member=1, host=5)
    refused_with(cluster, "edits", "workload policy edits/p: no capacity (member 1/1, host 5/5)")

    cluster.api().patch(
        path,
        {
            "spec": {
                "topologyKey": "kubernetes.io/os",
                "allocationPolicy": [{"name": "linux", "replicas": 7}],
            }
        },
    )
    polling.eventually(lambda: len(workloads.running(cluster, "edits")) == 7, "one more runs")
    refused_with(cluster, "edits", "workload policy edits/p: no capacity (linux 7/7)")
    assert topolog.quotas("edits", "p") == {"linux": 7}


@pytest.mark.scenario("WP-13")
def test_an_edited_selector_or_type_applies_to_later_pods(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    path = "/apis/kosmos.io/v1alpha1/namespaces/edits/workloadpolicies/p"
    before = {pod["metadata"]["uid"] for pod in workloads.running(cluster, "edits", "of=web")}
    selector = {"matchLabels": {"app": None, "of": "late"}}
    quotas = [{"name": "linux", "replicas": 2}]
    cluster.api().patch(path, {"spec": {"labelSelector": selector, "allocationPolicy": quotas}})
    polling.eventually(lambda: topolog.ask(EDITED)["desired"] == 2, "the edited policy is in the log")
    cluster.apply(workloads.deployment("edits", "late", 3, policy="p", app="web"))
    polling.eventually(lambda: len(workloads.running(cluster, "edits", "of=late")) == 2, "two run")
    polling.eventually(lambda: len(workloads.pending(cluster, "edits", "of=late")) == 1, "one waits")
    refused_with(cluster, "edits", "workload policy edits/p: no capacity (linux 2/2)", labels="of=late")
    # The pods that the old selector matched keep running and are no longer counted.
    assert before == {pod["metadata"]["uid"] for pod in workloads.running(cluster, "edits", "of=web")}
    assert topolog.quotas("edits", "p") == {"linux": 2}

    cluster.api().patch(path, {"spec": {"allocationType": "Preferred"}})
    polling.eventually(lambda: len(workloads.running(cluster, "edits", "of=late")) == 3, "the third runs")
    assert topolog.quotas("edits", "p") == {"linux": 3}
    clear(cluster, "edits")
