"""``topolog doctor cluster``: what the manifests create, and each thing that is missing or wrong."""

import datetime
import pathlib
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import urllib3

from app import plugins
from app.doctor.cluster import examination, prerequisites, rights
from app.simulation.apiserver import faults
from app.store.log import incarnations
from app.store.server import connections, embedded
from tests.support import declared, manifests
from tests.support.doctor import clusters, runs

Json = dict[str, Any]
HOME = clusters.HOME
COMPONENTS = ("extender", "recorder", "controller", "auditor", "compactor")
READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "c", "restartCount": 0}],
}


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture
def cluster(tmp_path: pathlib.Path, store_server: embedded.Server) -> Iterator[clusters.Cluster]:
    """A sound cluster: what deploy/ creates, its pods ready, and a store that it has claimed."""
    with clusters.running(tmp_path) as made:
        made.environ |= {
            "TOPOLOG_STORE_URL": store_server.url,
            "TOPOLOG_CLUSTER": f"c{secrets.token_hex(6)}",
        }
        claim(made, kubernetes=uid(made), epoch="1")
        for document in manifests.documents(manifests.DEPLOY / "crds" / "kosmos.io_workloadpolicies.yaml"):
            made.add("customresourcedefinitions", document)
        for account in manifests.objects("ServiceAccount", "rbac"):
            made.add("serviceaccounts", account)
        for component in COMPONENTS:
            for number in range(2 if component == "extender" else 1):
                pod(made, f"topolog-{component}-{number}", component, f"n{number}")
        budget = manifests.one("PodDisruptionBudget", "topolog-extender")
        made.add("poddisruptionbudgets", {**budget, "metadata": {**budget["metadata"], "namespace": HOME}})
        for name in ("topolog-recorder", "topolog-controller"):
            lease(made, name)
        for component in COMPONENTS:
            for right in (*rights.EXCESS, rights.EVICT):
                user = f"system:serviceaccount:{HOME}:topolog-{component}"
                made.api.router.reviews.denied.add((user, right.verb, right.group, right.resource))
        yield made


def uid(cluster: clusters.Cluster) -> str:
    """The UID of kube-system, as the API server shows it."""
    reply = urllib3.request("GET", f"{cluster.api.url}/api/v1/namespaces/kube-system")
    return str(reply.json()["metadata"]["uid"])


def claim(cluster: clusters.Cluster, **fields: str) -> None:
    """Write what a recorder writes when it claims a log."""
    with connections.connect(cluster.environ["TOPOLOG_STORE_URL"]) as client:
        client.hset(declared.names(cluster.environ["TOPOLOG_CLUSTER"]).meta, mapping=dict(fields))


def pod(cluster: clusters.Cluster, name: str, component: str, node: str) -> None:
    cluster.add_own_pod(name, component, nodeName=node, priorityClassName="system-cluster-critical")
    cluster.api.objects.change("pods", (HOME, name), lambda one: {**one, "status": READY})


def lease(cluster: clusters.Cluster, name: str, **spec: object) -> None:
    given = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": now(), **spec}
    cluster.add("leases", {"metadata": {"name": name, "namespace": HOME}, "spec": given})


def doctor(cluster: clusters.Cluster) -> runs.Run:
    return runs.doctor("cluster", environ=cluster.environ)


RIGHT = {"C01", "C02", "C03", "C04", "C05", "C06", "C07", "C08", "C10"}
"""Checks that a sound cluster passes; C09 needs a NetworkPolicy."""
BEFORE = {"C01", "C04", "C12", "C13", "C14"}
"""Checks that a cluster passes which is ready for an installation."""


def test_a_sound_cluster_has_nothing_wrong(cluster: clusters.Cluster) -> None:
    run = doctor(cluster)
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == RIGHT


def denied(account: str, verb: str, group: str, resource: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        user = f"system:serviceaccount:{HOME}:topolog-{account}"
        cluster.api.router.reviews.denied.add((user, verb, group, resource))

    return change


def allowed_too_much(cluster: clusters.Cluster) -> None:
    user = f"system:serviceaccount:{HOME}:topolog-extender"
    cluster.api.router.reviews.denied.remove((user, "get", "", "secrets"))


EVICTING = {
    "TOPOLOG_PLUGINS_ENABLED": "*,ElasticQuota",
    "TOPOLOG_PLUGINS_ARGS": '{"ElasticQuota": {"overuse": "evict"}}',
}


def evicting(cluster: clusters.Cluster) -> None:
    cluster.environ |= EVICTING


def allowed_to_evict(cluster: clusters.Cluster) -> None:
    user = f"system:serviceaccount:{HOME}:topolog-controller"
    cluster.api.router.reviews.denied.remove((user, "create", "", "pods/eviction"))


def without_its_controller(cluster: clusters.Cluster) -> None:
    cluster.environ |= {**EVICTING, "TOPOLOG_PLUGINS_CONTROLLERS": "*,-ElasticQuota"}


def evicting_by_right(cluster: clusters.Cluster) -> None:
    evicting(cluster)
    allowed_to_evict(cluster)


def misspelled(cluster: clusters.Cluster) -> None:
    cluster.environ |= {**EVICTING, "TOPOLOG_PLUGINS_ARGS": '{"ElasticQuota": {"overuse": "evicts"}}'}


def of_version(version: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        cluster.api.router.reviews.version = version

    return change


def definition(edit: Callable[[Json], None] | None) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        key = ("", "workloadpolicies.kosmos.io")
        if edit is None:
            cluster.api.objects.remove("customresourcedefinitions", key)
            return

        def edited(one: Json) -> Json:
            edit(one["spec"]["versions"][0])
            return one

        cluster.api.objects.change("customresourcedefinitions", key, edited)

    return change


def status(name: str, **fields: object) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        cluster.api.objects.change("pods", (HOME, name), lambda one: {**one, "status": {**READY, **fields}})

    return change


def waiting(reason: str, message: str) -> Json:
    return {"name": "c", "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}


def on_one_node(cluster: clusters.Cluster) -> None:
    cluster.change("pods", HOME, "topolog-extender-1", nodeName="n0")


def evicted(name: str, node: str) -> Callable[[clusters.Cluster], None]:
    """A further extender, whose pod the kubelet has ended; its object stays."""

    def change(cluster: clusters.Cluster) -> None:
        pod(cluster, name, "extender", node)
        status(name, phase="Failed", reason="Evicted", conditions=[])(cluster)

    return change


def replaced(cluster: clusters.Cluster) -> None:
    removed("pods", "topolog-extender-1")(cluster)
    evicted("topolog-extender-2", "n2")(cluster)


def removed(resource: str, name: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        cluster.api.objects.remove(resource, (HOME, name))

    return change


def overdue(cluster: clusters.Cluster) -> None:
    cluster.change("leases", HOME, "topolog-recorder", renewTime="2026-01-01T00:00:00.000000Z")


def of_another_cluster(cluster: clusters.Cluster) -> None:
    claim(cluster, kubernetes="12345678-1234-1234-1234-123456789012")


def unclaimed(cluster: clusters.Cluster) -> None:
    claim(cluster, kubernetes="")


def of_a_later_etcd(cluster: clusters.Cluster) -> None:
    claim(cluster, epoch="999999999")


def of_an_earlier_era(cluster: clusters.Cluster) -> None:
    claim(cluster, epoch=incarnations.next_era("999999999"))


def without_priority(cluster: clusters.Cluster) -> None:
    cluster.change("pods", HOME, "topolog-extender-1", priorityClassName="")


def given_up(cluster: clusters.Cluster) -> None:
    cluster.change("leases", HOME, "topolog-controller", holderIdentity="")


def example_address(cluster: clusters.Cluster) -> None:
    rule = {"to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}]}
    metadata = {"name": "topolog", "namespace": HOME}
    cluster.add("networkpolicies", {"metadata": metadata, "spec": {"egress": [rule]}})


def own_address(cluster: clusters.Cluster) -> None:
    rules = [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}, {"podSelector": {}}]}, {}]
    metadata = {"name": "topolog", "namespace": HOME}
    cluster.add("networkpolicies", {"metadata": metadata, "spec": {"ingress": rules}})


UNPLACED = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]
MISTAKES: dict[str, tuple[Callable[[clusters.Cluster], None], dict[str, str]]] = {
    "an older version": (of_version("v1.33.9"), {"C01": "warning"}),
    "a later version": (of_version("v1.38.0"), {"C01": "warning"}),
    "the oldest version": (of_version("v1.34.0+k3s1"), {}),
    "no version": (of_version("unknown"), {"C01": "unsure"}),
    "no right to bind": (denied("extender", "create", "", "pods/binding"), {"C02": "problem"}),
    "no right to watch": (denied("recorder", "watch", "kosmos.io", "workloadpolicies"), {"C02": "problem"}),
    "no right to see which kinds exist": (denied("recorder", "get", "", "/apis"), {"C02": "problem"}),
    "no right to see whether a kind exists": (denied("auditor", "get", "", "/apis/*"), {"C02": "problem"}),
    "no right to a status": (
        denied("controller", "patch", "kosmos.io", "workloadpolicies/status"),
        {"C02": "problem"},
    ),
    "no right to evict as an argument requests": (evicting, {"C10": "problem"}),
    "a right to evict as an argument requests": (evicting_by_right, {}),
    "an argument of a controller that does not run": (without_its_controller, {}),
    "a right to evict that no argument requests": (allowed_to_evict, {"C10": "warning"}),
    "an argument that no plugin has": (misspelled, {"C10": "unsure"}),
    "a right that does harm": (allowed_too_much, {"C03": "warning"}),
    "no definition": (definition(None), {"C04": "problem"}),
    "another version of it": (definition(lambda one: one.update(name="v9")), {"C04": "problem"}),
    "one without a status": (definition(lambda one: one.pop("subresources")), {"C04": "warning"}),
    "an image that is not there": (
        status("topolog-auditor-0", containerStatuses=[waiting("ImagePullBackOff", "not found")]),
        {"C06": "problem"},
    ),
    "a missing Secret": (
        status(
            "topolog-auditor-0", initContainerStatuses=[waiting("CreateContainerConfigError", 'secret "x"')]
        ),
        {"C06": "problem"},
    ),
    "a pod that cannot be placed": (
        status("topolog-auditor-0", phase="Pending", conditions=UNPLACED),
        {"C06": "problem"},
    ),
    "a pod that is not ready": (status("topolog-auditor-0", conditions=[]), {"C06": "problem"}),
    "a pod that ends again and again": (
        status("topolog-auditor-0", containerStatuses=[{"name": "c", "restartCount": 9}]),
        {"C06": "warning"},
    ),
    "an evicted pod beside those that run": (evicted("topolog-extender-2", "n0"), {}),
    "one extender beside an evicted pod": (replaced, {"C07": "warning"}),
    "one node": (on_one_node, {"C07": "warning"}),
    "one extender": (removed("pods", "topolog-extender-1"), {"C07": "warning"}),
    "no budget": (removed("poddisruptionbudgets", "topolog-extender"), {"C07": "warning"}),
    "no Lease": (removed("leases", "topolog-recorder"), {"C08": "problem"}),
    "an overdue Lease": (overdue, {"C08": "problem"}),
    "a Lease without a holder": (given_up, {"C08": "problem"}),
    "a Lease behind the store's epoch": (of_a_later_etcd, {"C08": "problem"}),
    "an epoch of a later era": (of_an_earlier_era, {}),
    "another cluster's log": (of_another_cluster, {"C05": "problem"}),
    "a log that no recorder has claimed": (unclaimed, {}),
    "no priority class": (without_priority, {"C07": "warning"}),
    "an address of documentation": (example_address, {"C09": "problem"}),
    "an address": (own_address, {}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_found_and_nothing_else(cluster: clusters.Cluster, name: str) -> None:
    change, expected = MISTAKES[name]
    change(cluster)
    assert doctor(cluster).wrong() == expected


def test_a_network_policy_of_addresses_of_the_cluster_is_right(cluster: clusters.Cluster) -> None:
    own_address(cluster)
    assert doctor(cluster).right() == {*RIGHT, "C09"}


FIXES: dict[str, tuple[Callable[[clusters.Cluster], None], str]] = {
    "a service account": (
        denied("recorder", "get", "", "/apis"),
        "kubectl apply -k deploy/rbac, or helm upgrade: ClusterRoleBinding and RoleBinding"
        " topolog-recorder grant it",
    ),
    "a pod": (
        status("topolog-auditor-0", conditions=[]),
        f"kubectl -n {HOME} describe pod topolog-auditor-0; kubectl -n {HOME} logs topolog-auditor-0"
        " --all-containers --previous",
    ),
    "a Lease": (
        overdue,
        f"kubectl -n {HOME} logs deployment/topolog-recorder;"
        " where it runs elsewhere, the log of the recorder",
    ),
    "a NetworkPolicy": (
        example_address,
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


@pytest.mark.parametrize("change", [overdue, removed("leases", "topolog-recorder")])
@pytest.mark.parametrize(("age", "verdict"), [(20, "unsure"), (70, "problem")])
def test_a_reinstalled_process_has_time_to_take_over_its_lease(
    cluster: clusters.Cluster, change: Callable[[clusters.Cluster], None], age: int, verdict: str
) -> None:
    change(cluster)
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)
    status("topolog-recorder-0", startTime=at.strftime("%Y-%m-%dT%H:%M:%SZ"))(cluster)
    run = doctor(cluster)
    assert run.wrong() == {"C08": verdict}
    found = [one for one in run.of("C08") if one["verdict"] == verdict]
    assert ("repeat the check in 2" in found[0]["fix"]) == (verdict == "unsure")


def test_a_pod_that_has_ended_does_not_age_a_process(cluster: clusters.Cluster) -> None:
    overdue(cluster)
    now = datetime.datetime.now(datetime.UTC)
    for name, days in (("topolog-recorder-0", 0), ("topolog-recorder-1", 1)):
        at = now - datetime.timedelta(days=days, seconds=20)
        if days:
            pod(cluster, name, "recorder", "n1")
        ended: Json = {"phase": "Failed"} if days else {}
        status(name, startTime=at.strftime("%Y-%m-%dT%H:%M:%SZ"), **ended)(cluster)
    assert doctor(cluster).wrong() == {"C08": "unsure"}


def test_the_event_of_a_pod_is_repeated(cluster: clusters.Cluster) -> None:
    status(
        "topolog-auditor-0", containerStatuses=[waiting("CreateContainerConfigError", 'secret "x" not found')]
    )(cluster)
    (found,) = [one for one in doctor(cluster).of("C06") if one["verdict"] == "problem"]
    assert found["seen"] == 'c: CreateContainerConfigError: secret "x" not found'


def test_a_volume_that_is_missing_is_named_by_its_event(cluster: clusters.Cluster) -> None:
    creating = waiting("ContainerCreating", "")
    status("topolog-auditor-0", phase="Pending", conditions=[], containerStatuses=[creating])(cluster)
    for number, text in enumerate(('secret "former" not found', 'secret "topolog-tls" not found')):
        event = {
            "metadata": {"name": f"e{number}", "namespace": HOME},
            "involvedObject": {"kind": "Pod", "name": "topolog-auditor-0", "namespace": HOME},
            "type": "Warning",
            "reason": "FailedMount",
            "message": text,
            "lastTimestamp": f"2026-01-01T00:00:0{number}Z",
        }
        cluster.add("events", event)
    (found,) = [one for one in doctor(cluster).of("C06") if one["verdict"] == "problem"]
    assert found["seen"] == 'Pending, not ready: FailedMount: secret "topolog-tls" not found'


def test_a_store_that_does_not_answer_is_unsure(cluster: clusters.Cluster) -> None:
    cluster.environ["TOPOLOG_STORE_URL"] = "redis://127.0.0.1:9"
    assert doctor(cluster).wrong() == {"C05": "unsure"}
    del cluster.environ["TOPOLOG_STORE_URL"]
    assert doctor(cluster).wrong() == {"C05": "unsure"}


def test_the_other_cluster_is_named(cluster: clusters.Cluster) -> None:
    of_another_cluster(cluster)
    (found,) = doctor(cluster).of("C05")
    assert "12345678-1234-1234-1234-123456789012" in found["seen"]
    assert uid(cluster) in found["seen"]


# -- before an installation ---------------------------------------------------------------------


@pytest.fixture
def empty(tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster without Topolog."""
    with clusters.running(tmp_path) as made:
        made.add("storageclasses", storage_class("fast", usual=True))
        yield made


def storage_class(name: str, *, usual: bool) -> Json:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"} if usual else {}
    return {"metadata": {"name": name, "annotations": marks}, "provisioner": "example.com/disk"}


def before(cluster: clusters.Cluster, area: str = "cluster") -> runs.Run:
    return runs.doctor(area, "--pre", environ=cluster.environ)


def test_an_empty_cluster_is_ready_for_an_installation(empty: clusters.Cluster) -> None:
    run = before(empty)
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == BEFORE
    assert before(empty, "all").wrong() == {}


def test_a_cluster_that_is_not_ready_is_found(empty: clusters.Cluster) -> None:
    empty.api.router.reviews.version = "v1.33.0"
    empty.api.router.reviews.denied.add(("", "create", "rbac.authorization.k8s.io", "clusterroles"))
    empty.add_own_pod("topolog-extender-0")
    empty.api.objects.remove("storageclasses", ("", "fast"))
    empty.add("storageclasses", storage_class("slow", usual=False))
    run = before(empty)
    assert run.wrong() == {"C01": "warning", "C12": "problem", "C13": "warning", "C14": "problem"}
    assert "create clusterroles.rbac.authorization.k8s.io" in run.of("C12")[0]["seen"]
    # A store of one's own needs no volume.
    empty.environ["TOPOLOG_STORE_URL"] = "redis://127.0.0.1:9"
    assert "C14" not in before(empty).wrong()
    assert before(empty, "all").wrong()["Q28"] == "problem"


def test_without_rights_nothing_is_known_before_an_installation(empty: clusters.Cluster) -> None:
    empty.api.faults.add(faults.FaultKind.FAIL, lambda request: True, status=403, times=1000)
    run = before(empty)
    assert run.wrong() == dict.fromkeys(BEFORE, "unsure")
    assert runs.doctor("cluster", "--pre").wrong() == run.wrong()


def test_the_kinds_that_the_installer_may_create_are_those_of_deploy() -> None:
    created = {resource for _, resource in prerequisites.CREATED}
    # Optional parts need the Prometheus Operator or cert-manager, and the chart is made from the overlays.
    apart = {"monitoring", "cert-manager", "charts"}
    for path in (each for each in manifests.DEPLOY.rglob("*.yaml") if not apart & set(each.parts)):
        for document in manifests.documents(path):
            kind = str((document or {}).get("kind", ""))
            if kind and not kind.endswith(("Configuration", "Kustomization", "Component")):
                plural = f"{kind.lower()}s".replace("policys", "policies")
                assert plural in created, f"{path.name}: {kind}"


def test_outside_a_cluster_the_user_of_the_kubeconfig_is_asked_about(cluster: clusters.Cluster) -> None:
    for account in manifests.objects("ServiceAccount", "rbac"):
        cluster.api.objects.remove("serviceaccounts", (HOME, account["metadata"]["name"]))
    assert doctor(cluster).wrong() == {}
    cluster.api.router.reviews.denied.add(("", "get", "", "/apis"))
    run = doctor(cluster)
    assert run.wrong() == {"C02": "problem"}
    (found,) = run.of("C02")
    assert found["seen"] == "may not get /apis"
    assert "whether a kind exists" in found["why"]
    assert "to this user" in found["fix"]


def test_outside_a_cluster_the_user_needs_the_right_to_evict_only_for_an_argument(
    cluster: clusters.Cluster,
) -> None:
    for account in manifests.objects("ServiceAccount", "rbac"):
        cluster.api.objects.remove("serviceaccounts", (HOME, account["metadata"]["name"]))
    evicting(cluster)
    assert doctor(cluster).wrong() == {}
    cluster.api.router.reviews.denied.add(("", "create", "", "pods/eviction"))
    run = doctor(cluster)
    assert run.wrong() == {"C10": "problem"}
    (found,) = run.of("C10")
    assert "deploy/components/evictions" in found["fix"]


@pytest.mark.parametrize(
    ("part", "lost"),
    [
        ("version", {"C01"}),
        ("subjectaccessreviews", {"C02", "C03", "C10"}),
        ("serviceaccounts", {"C02", "C03", "C10"}),
        ("customresourcedefinitions", {"C04"}),
        ("pods", {"C06", "C07"}),
        ("poddisruptionbudgets", {"C07"}),
        ("leases", {"C08"}),
        ("networkpolicies", {"C09"}),
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


# -- the permissions that the product lists -----------------------------------------------------


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
        assert not {*rights.EXCESS, rights.EVICT} & granted(process)
