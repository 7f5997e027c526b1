"""``topolog doctor cluster``: what the manifests create, and each thing that is missing or wrong."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from app import plugins
from app.doctor import api_reader
from app.doctor.cluster import examination, rights
from app.kube.client import clients as kube_clients
from app.simulation.apiserver import apiservers, faults
from tests.support import declared, manifests
from tests.support.doctor import cluster_changes, clusters, runs, sound_clusters
from tests.support.kube import plain_access

Json = dict[str, Any]
HOME = clusters.HOME


def doctor(cluster: clusters.Cluster) -> runs.Run:
    return runs.doctor("cluster", environ=cluster.environ)


RIGHT = {"C01", "C02", "C03", "C04", "C05", "C06", "C07", "C08", "C10", "C11"}
"""Checks that a sound cluster passes; C09 needs a NetworkPolicy."""


def test_a_sound_cluster_has_nothing_wrong(cluster: clusters.Cluster) -> None:
    run = doctor(cluster)
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == RIGHT


def test_a_simulated_cluster_has_the_definitions_of_the_kinds_that_it_serves() -> None:
    """As that of ``topolog demo``, which has no objects of apiextensions.k8s.io."""
    wanted = examination.expected(
        plugins.IN_TREE, declared.SCHEMA, namespace=HOME, leases={}, elections=[HOME]
    )
    with apiservers.ApiServer(declared.SCHEMA) as server:
        reader = api_reader.ApiReader(kube_clients.Client(plain_access.of(server.url)))

        def verdicts() -> dict[str, str]:
            return {one.subject: one.verdict for one in examination.definitions(reader, wanted)}

        assert verdicts()["workloadpolicies.kosmos.io"] == "ok"
        assert set(verdicts().values()) == {"ok"}
        server.objects.define_status("workloadpolicies", False)
        assert verdicts()["workloadpolicies.kosmos.io"] == "warning"
        server.objects.serve("workloadpolicies", False)
        assert verdicts()["workloadpolicies.kosmos.io"] == "problem"


UNPLACED = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]
MISTAKES: dict[str, tuple[Callable[[clusters.Cluster], None], dict[str, str]]] = {
    "an older version": (cluster_changes.of_version("v1.33.9"), {"C01": "warning"}),
    "a later version": (cluster_changes.of_version("v1.38.0"), {"C01": "warning"}),
    "the oldest version": (cluster_changes.of_version("v1.34.0+k3s1"), {}),
    "no version": (cluster_changes.of_version("unknown"), {"C01": "unsure"}),
    "no right to bind": (
        cluster_changes.denied("extender", "create", "", "pods/binding"),
        {"C02": "problem"},
    ),
    "no right of the account that extenders run as": (cluster_changes.unbound_scheduler, {"C02": "problem"}),
    "a right that an account has in vain": (
        cluster_changes.in_turn(
            cluster_changes.with_account(scheduler=True),
            cluster_changes.denied("extender", "create", "", "pods/binding"),
        ),
        {},
    ),
    "the rights of a kube-scheduler beside the extender": (
        cluster_changes.with_account(scheduler=True),
        {},
    ),
    "the rights of a kube-scheduler that is not there": (
        cluster_changes.with_account(scheduler=False),
        {"C03": "warning"},
    ),
    "no right to watch": (
        cluster_changes.denied("recorder", "watch", "kosmos.io", "workloadpolicies"),
        {"C02": "problem"},
    ),
    "no right to see which kinds exist": (
        cluster_changes.denied("recorder", "get", "", "/apis"),
        {"C02": "problem"},
    ),
    "no right to see whether a kind exists": (
        cluster_changes.denied("auditor", "get", "", "/apis/*"),
        {"C02": "problem"},
    ),
    "no right to a status": (
        cluster_changes.denied("controller", "patch", "kosmos.io", "workloadpolicies/status"),
        {"C02": "problem"},
    ),
    "no right to evict as an argument requests": (cluster_changes.evicting, {"C10": "problem"}),
    "a right to evict as an argument requests": (cluster_changes.evicting_by_right, {}),
    "an argument of a controller that does not run": (cluster_changes.without_its_controller, {}),
    "a right to evict that no argument requests": (cluster_changes.allowed_to_evict, {"C10": "warning"}),
    "an argument that no plugin has": (cluster_changes.misspelled, {"C10": "unsure"}),
    "a right that does harm": (cluster_changes.allowed_too_much, {"C03": "warning"}),
    "a right of a namespace that does harm": (cluster_changes.granted("get", "secrets"), {"C03": "warning"}),
    "a right of a namespace that has no effect": (cluster_changes.granted("patch", "nodes"), {}),
    "no definition": (cluster_changes.definition(None), {"C04": "problem"}),
    "another version of it": (
        cluster_changes.definition(lambda one: one.update(name="v9")),
        {"C04": "problem"},
    ),
    "one without a status": (
        cluster_changes.definition(lambda one: one.pop("subresources")),
        {"C04": "warning"},
    ),
    "an image that is not there": (
        cluster_changes.status(
            "topolog-auditor-0", containerStatuses=[cluster_changes.waiting("ImagePullBackOff", "not found")]
        ),
        {"C06": "problem"},
    ),
    "a missing Secret": (
        cluster_changes.status(
            "topolog-auditor-0",
            initContainerStatuses=[cluster_changes.waiting("CreateContainerConfigError", 'secret "x"')],
        ),
        {"C06": "problem"},
    ),
    "a pod that cannot be placed": (
        cluster_changes.status("topolog-auditor-0", phase="Pending", conditions=UNPLACED),
        {"C06": "problem"},
    ),
    "a pod that is not ready": (
        cluster_changes.status("topolog-auditor-0", conditions=[]),
        {"C06": "problem"},
    ),
    "a pod that ends again and again": (
        cluster_changes.status("topolog-auditor-0", containerStatuses=[{"name": "c", "restartCount": 9}]),
        {"C06": "warning"},
    ),
    "a bootstrap that fails again and again": (
        cluster_changes.status(
            "topolog-bootstrap-0",
            containerStatuses=[cluster_changes.waiting("CrashLoopBackOff", "back-off 5m0s")],
        ),
        {"C06": "problem"},
    ),
    "a store without its volume": (
        cluster_changes.status("topolog-valkey-0", phase="Pending", conditions=UNPLACED),
        {"C06": "problem"},
    ),
    "an evicted pod beside those that run": (cluster_changes.evicted("topolog-extender-2", "n0"), {}),
    "a pod that terminates": (
        cluster_changes.terminating("topolog-auditor-1", "auditor", seconds=20),
        {},
    ),
    "a pod that does not terminate": (
        cluster_changes.terminating("topolog-auditor-1", "auditor", seconds=-60),
        {"C06": "warning"},
    ),
    "one extender beside one that terminates": (cluster_changes.only_terminating, {"C07": "warning"}),
    "one extender beside an evicted pod": (cluster_changes.replaced, {"C07": "warning"}),
    "one node": (cluster_changes.on_one_node, {"C07": "warning"}),
    "one extender": (cluster_changes.removed("pods", "topolog-extender-1"), {"C07": "warning"}),
    "no budget": (cluster_changes.removed("poddisruptionbudgets", "topolog-extender"), {"C07": "warning"}),
    "no Lease": (cluster_changes.removed("leases", "topolog-recorder"), {"C08": "problem"}),
    "an overdue Lease": (cluster_changes.overdue, {"C08": "problem"}),
    "a Lease without a holder": (cluster_changes.given_up, {"C08": "problem"}),
    "a Lease behind the store's epoch": (cluster_changes.of_a_later_etcd, {"C08": "problem"}),
    "an epoch of a later era": (cluster_changes.of_an_earlier_era, {}),
    "another cluster's log": (cluster_changes.of_another_cluster, {"C05": "problem"}),
    "a log that no recorder has claimed": (cluster_changes.unclaimed, {}),
    "no priority class": (cluster_changes.without_priority, {"C07": "warning"}),
    "an address of documentation": (cluster_changes.example_address, {"C09": "problem"}),
    "an address": (cluster_changes.own_address, {}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_found_and_nothing_else(cluster: clusters.Cluster, name: str) -> None:
    change, expected = MISTAKES[name]
    change(cluster)
    assert doctor(cluster).wrong() == expected


def test_a_network_policy_of_addresses_of_the_cluster_is_right(cluster: clusters.Cluster) -> None:
    cluster_changes.own_address(cluster)
    assert doctor(cluster).right() == {*RIGHT, "C09"}


FIXES: dict[str, tuple[Callable[[clusters.Cluster], None], str]] = {
    "a service account": (
        cluster_changes.denied("recorder", "get", "", "/apis"),
        "kubectl apply -k deploy/rbac, or helm upgrade: ClusterRoleBinding and RoleBinding"
        " topolog-recorder grant it",
    ),
    "the service account of a kube-scheduler": (
        cluster_changes.unbound_scheduler,
        "kubectl apply -f deploy/components/sidecar/rbac.yaml, or helm upgrade: ClusterRoleBinding and"
        " RoleBinding topolog-scheduler grant it",
    ),
    "a pod": (
        cluster_changes.status("topolog-auditor-0", conditions=[]),
        f"kubectl -n {HOME} describe pod topolog-auditor-0; kubectl -n {HOME} logs topolog-auditor-0"
        " --all-containers --previous",
    ),
    "a Lease": (
        cluster_changes.overdue,
        f"kubectl -n {HOME} logs deployment/topolog-recorder;"
        " where it runs elsewhere, the log of the recorder",
    ),
    "a NetworkPolicy": (
        cluster_changes.example_address,
        f"kubectl -n {HOME} edit networkpolicy topolog: the addresses of control plane, API server and store;"
        " with Helm networkPolicy.schedulerCIDRs, apiServerCIDRs and storeCIDRs",
    ),
}


@pytest.mark.parametrize("name", FIXES)
def test_a_fix_names_the_object_that_was_examined(cluster: clusters.Cluster, name: str) -> None:
    change, fix = FIXES[name]
    change(cluster)
    assert {one["fix"] for one in doctor(cluster).checks if one["verdict"] == "problem"} == {fix}


def test_an_installation_in_another_namespace_is_named(cluster: clusters.Cluster) -> None:
    labels = {"app.kubernetes.io/name": "topolog"}
    metadata = {"name": "topolog-recorder", "namespace": "placement", "labels": labels}
    cluster.add("deployments", {"metadata": metadata, "spec": {}})
    run = runs.doctor("cluster", "--namespace", "empty", environ=cluster.environ)
    assert {one["fix"].partition(";")[0] for one in run.of("C06")} == {"--namespace placement"}


@pytest.mark.parametrize(
    "change", [cluster_changes.overdue, cluster_changes.removed("leases", "topolog-recorder")]
)
@pytest.mark.parametrize(("age", "verdict"), [(20, "unsure"), (70, "problem")])
def test_a_reinstalled_process_has_time_to_take_over_its_lease(
    cluster: clusters.Cluster, change: Callable[[clusters.Cluster], None], age: int, verdict: str
) -> None:
    change(cluster)
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)
    cluster_changes.status("topolog-recorder-0", startTime=at.strftime("%Y-%m-%dT%H:%M:%SZ"))(cluster)
    run = doctor(cluster)
    assert run.wrong() == {"C08": verdict}
    found = [one for one in run.of("C08") if one["verdict"] == verdict]
    assert ("repeat the check in 2" in found[0]["fix"]) == (verdict == "unsure")


def test_a_pod_that_has_ended_does_not_age_a_process(cluster: clusters.Cluster) -> None:
    cluster_changes.overdue(cluster)
    now = datetime.datetime.now(datetime.UTC)
    for name, days in (("topolog-recorder-0", 0), ("topolog-recorder-1", 1)):
        at = now - datetime.timedelta(days=days, seconds=20)
        if days:
            sound_clusters.pod(cluster, name, "recorder", "n1")
        ended: Json = {"phase": "Failed"} if days else {}
        cluster_changes.status(name, startTime=at.strftime("%Y-%m-%dT%H:%M:%SZ"), **ended)(cluster)
    assert doctor(cluster).wrong() == {"C08": "unsure"}


def test_a_store_that_does_not_answer_is_unsure(cluster: clusters.Cluster) -> None:
    cluster.environ["TOPOLOG_STORE_URL"] = "redis://127.0.0.1:9"
    assert doctor(cluster).wrong() == {"C05": "unsure"}
    del cluster.environ["TOPOLOG_STORE_URL"]
    assert doctor(cluster).wrong() == {"C05": "unsure"}


def test_the_other_cluster_is_named(cluster: clusters.Cluster) -> None:
    cluster_changes.of_another_cluster(cluster)
    (found,) = doctor(cluster).of("C05")
    assert "12345678-1234-1234-1234-123456789012" in found["seen"]
    assert sound_clusters.uid(cluster) in found["seen"]


OUTSIDE = {"C06": "unsure", "C07": "unsure"}


def test_outside_a_cluster_the_user_of_the_kubeconfig_is_asked_about(cluster: clusters.Cluster) -> None:
    cluster_changes.outside(cluster)
    assert doctor(cluster).wrong() == OUTSIDE
    cluster.api.router.reviews.denied.add(("", "get", "", "/apis"))
    run = doctor(cluster)
    assert run.wrong() == {**OUTSIDE, "C02": "problem"}
    (found,) = run.of("C02")
    assert found["seen"] == "may not get /apis"
    assert "whether a kind exists" in found["why"]
    assert "to this user" in found["fix"]


def test_outside_a_cluster_the_user_needs_the_right_to_evict_only_for_an_argument(
    cluster: clusters.Cluster,
) -> None:
    cluster_changes.outside(cluster)
    cluster_changes.evicting(cluster)
    assert doctor(cluster).wrong() == OUTSIDE
    cluster.api.router.reviews.denied.add(("", "create", "", "pods/eviction"))
    run = doctor(cluster)
    assert run.wrong() == {**OUTSIDE, "C10": "problem"}
    (found,) = run.of("C10")
    assert "deploy/components/evictions" in found["fix"]


@pytest.mark.parametrize(
    ("part", "lost"),
    [
        ("version", {"C01"}),
        ("subjectaccessreviews", {"C02", "C03", "C10"}),
        ("serviceaccounts", {"C02", "C03", "C10"}),
        ("customresourcedefinitions", {"C04"}),
        ("pods", {"C02", "C03", "C06", "C07", "C10", "C11"}),
        ("poddisruptionbudgets", {"C07"}),
        ("leases", {"C08"}),
        ("networkpolicies", {"C09", "C11"}),
        ("kube-system", {"C05"}),
    ],
)
def test_what_may_not_be_read_is_unsure(cluster: clusters.Cluster, part: str, lost: set[str]) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL, lambda request: part in request.path.split("/"), status=403, times=1000
    )
    run = doctor(cluster)
    assert run.wrong() == dict.fromkeys(lost, "unsure")
    runs.refused(run, part)


def test_no_pods_are_unsure(cluster: clusters.Cluster) -> None:
    run = runs.doctor("cluster", "--namespace", "elsewhere", environ=cluster.environ)
    assert {name for name, verdict in run.wrong().items() if verdict == "unsure"} == {"C06", "C07"}
    run = runs.doctor("cluster")
    assert set(run.wrong().values()) == {"unsure"}


def granted(process: str) -> set[rights.Right]:
    """The permissions that deploy/rbac grants a process, with all rules written out."""
    found: set[rights.Right] = set()
    for document in manifests.documents(manifests.DEPLOY / "rbac" / f"{process}.yaml"):
        if document["kind"] not in ("ClusterRole", "Role"):
            continue
        namespace = document["metadata"].get("namespace", "")
        found |= {
            rights.Right(verb, group, resource, name, namespace)
            for rule in document["rules"]
            for verb in rule["verbs"]
            for group in rule.get("apiGroups", [""])
            for resource in rule.get("resources") or rule["nonResourceURLs"]
            for name in rule.get("resourceNames", [""])
        }
    return found


def test_the_permissions_that_are_checked_are_those_of_deploy() -> None:
    catalog = plugins.catalog()
    leases = {"recorder": "topolog-recorder", "controller": "topolog-controller"}
    wanted = examination.expected(
        plugins.IN_TREE, catalog.schema, namespace=HOME, leases=leases, elections=[HOME]
    )
    needed = rights.needed(wanted.kinds, wanted.statuses, namespace=HOME, leases=leases)
    for process, own in needed.items():
        assert set(own) == granted(process), process
        own_namespace = {right._replace(namespace=HOME) for right in rights.EXCESS}
        assert not {*rights.EXCESS, *own_namespace, rights.EVICT} & granted(process)
