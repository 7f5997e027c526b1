"""``topolog doctor policies``: each mistake in policies, pods and workloads is found, and nothing else."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app import plugins
from app.doctor.policies import examination
from app.framework import doctor_checks
from app.plugins.workload_policy import diagnosis
from app.simulation.apiserver import faults
from tests.support.doctor import clusters, runs

Json = dict[str, Any]
LABEL = {"workload-policy/kosmos.io": "spread", "app": "web"}
OURS = "topolog-scheduler"
SPEC: Json = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "allocationPolicy": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}],
    "allocationType": "Required",
    "allocationMethod": "Fill",
}


def policy(cluster: clusters.Cluster, name: str = "spread", **spec: object) -> None:
    given = {**SPEC, **spec}
    cluster.add("workloadpolicies", {"metadata": {"name": name, "namespace": "shop"}, "spec": given})


def workload(
    cluster: clusters.Cluster,
    name: str = "web",
    *,
    kind: str = "deployments",
    labels: Json | None = None,
    template: Json | None = None,
    scheduler: str = OURS,
    node: str = "",
    replicas: int = 2,
    unavailable: object = 1,
    surge: object = "25%",
) -> None:
    """Create a workload; by default one whose template names the policy."""
    pod = {
        "metadata": {"labels": LABEL if template is None else template},
        "spec": {"schedulerName": scheduler, **({"nodeName": node} if node else {})},
    }
    spec = {
        "replicas": replicas,
        "strategy": {"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}},
        "template": pod,
    }
    cluster.add(kind, {"metadata": {"name": name, "namespace": "shop", "labels": labels or {}}, "spec": spec})


def pod(
    cluster: clusters.Cluster, name: str, node: str = "", labels: Json | None = None, **spec: object
) -> None:
    given = {"schedulerName": OURS, **({"nodeName": node} if node else {}), **spec}
    cluster.add_pod(name, namespace="shop", labels=LABEL if labels is None else labels, **given)


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A sound cluster: a policy with three places, two pods on them, and a scheduler of ours."""
    with clusters.running(tmp_path) as made:
        made.add_node("n1", zone="a")
        made.add_node("n2", zone="b")
        made.add_config("topolog-kube-scheduler", clusters.shipped("sidecar"))
        made.add_scheduler("topolog-extender-a", config_map="topolog-kube-scheduler")
        policy(made)
        workload(made)
        pod(made, "web-1", "n1")
        pod(made, "web-2", "n2")
        made.add_pod("of-another-kind")
        yield made


def doctor(cluster: clusters.Cluster, *arguments: str) -> runs.Run:
    return runs.doctor("policies", *arguments, environ=cluster.environ)


RIGHT = {"P01", "P02", "P03", "P04", "P05", "P06", "P07", "P08"}
"""Checks that a sound cluster passes."""


def test_a_sound_cluster_has_nothing_wrong(cluster: clusters.Cluster) -> None:
    run = doctor(cluster)
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == RIGHT


def broken(cluster: clusters.Cluster) -> None:
    twice = [{"name": "a", "replicas": 1}, {"name": "a", "replicas": 2}]
    policy(cluster, "broken", allocationPolicy=twice)
    pod(cluster, "of-broken", labels={**LABEL, "workload-policy/kosmos.io": "broken"})


def no_nodes(kind: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        policy(cluster, "far", allocationType=kind, allocationPolicy=[{"name": "c", "replicas": 1}])

    return change


def no_label(cluster: clusters.Cluster) -> None:
    policy(cluster, "far", topologyKey="rack")


def other_scheduler(cluster: clusters.Cluster) -> None:
    pod(cluster, "web-3", "n1", schedulerName="default-scheduler")


def of_a_daemon_set(cluster: clusters.Cluster) -> None:
    """A DaemonSet's pods concern no policy, whatever their labels."""
    other_scheduler(cluster)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    cluster.api.objects.change(
        "pods",
        ("shop", "web-3"),
        lambda one: {**one, "metadata": {**one["metadata"], "ownerReferences": [owner]}},
    )


def finished(cluster: clusters.Cluster) -> None:
    other_scheduler(cluster)
    cluster.api.objects.change(
        "pods", ("shop", "web-3"), lambda one: {**one, "status": {"phase": "Succeeded"}}
    )


def overrun(cluster: clusters.Cluster) -> None:
    pod(cluster, "web-3", "n2")


def too_many(cluster: clusters.Cluster) -> None:
    for number in range(2):
        pod(cluster, f"waiting-{number}")


def unmatched(cluster: clusters.Cluster) -> None:
    pod(cluster, "other", labels={**LABEL, "app": "api"})


def unknown(cluster: clusters.Cluster) -> None:
    pod(cluster, "other", labels={"workload-policy/kosmos.io": "nowhere"})


def selecting_nothing(cluster: clusters.Cluster) -> None:
    policy(cluster, "empty", labelSelector={"matchLabels": {"app": "nothing"}})


MISTAKES: dict[str, tuple[Callable[[clusters.Cluster], None], dict[str, str]]] = {
    "an invalid policy": (broken, {"P01": "problem"}),
    "a domain without nodes": (no_nodes("Required"), {"P02": "problem"}),
    "a preferred domain without nodes": (no_nodes("Preferred"), {"P02": "warning"}),
    "a label that no node has": (no_label, {"P02": "problem"}),
    "a pod of another scheduler": (other_scheduler, {"P03": "problem"}),
    "a DaemonSet's pod": (of_a_daemon_set, {}),
    "a finished pod": (finished, {}),
    "a template of another scheduler": (
        lambda one: workload(one, "other", scheduler="default-scheduler"),
        {"P03": "problem"},
    ),
    "a template with a node": (lambda one: workload(one, "other", node="n1"), {"P03": "problem"}),
    "a template with a node and without a policy": (
        lambda one: workload(one, "other", node="n1", template={"app": "web"}),
        {},
    ),
    "a label on the Deployment only": (
        lambda one: workload(one, "bare", labels=LABEL, template={"app": "web"}),
        {"P04": "problem"},
    ),
    "a label on the Job only": (
        lambda one: workload(one, "bare", kind="jobs", labels=LABEL, template={"app": "web"}),
        {"P04": "problem"},
    ),
    "a rollout that cannot proceed": (
        lambda one: workload(one, "full", replicas=3, unavailable=0),
        {"P05": "warning"},
    ),
    "a rollout by default that cannot proceed": (
        lambda one: workload(one, "full", replicas=3, unavailable="25%"),
        {"P05": "warning"},
    ),
    "a rollout by default of four replicas": (
        lambda one: workload(one, "full", replicas=4, unavailable="25%"),
        {},
    ),
    "a rollout without a surge": (
        lambda one: workload(one, "full", replicas=3, unavailable="25%", surge=0),
        {},
    ),
    "a rollout with a free place": (lambda one: workload(one, "full", unavailable=0), {}),
    "a policy that selects nothing": (selecting_nothing, {"P06": "warning"}),
    "a pod that its policy does not select": (unmatched, {"P07": "problem"}),
    "a pod of an unknown policy": (unknown, {"P07": "problem"}),
    "more pods than places": (overrun, {"P08": "warning"}),
    "more pods waiting than places": (too_many, {"P08": "warning"}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_found_and_nothing_else(cluster: clusters.Cluster, name: str) -> None:
    change, expected = MISTAKES[name]
    change(cluster)
    assert doctor(cluster).wrong() == expected


def test_pods_that_wait_and_free_places_are_counted(cluster: clusters.Cluster) -> None:
    too_many(cluster)
    (found,) = [one for one in doctor(cluster).of("P08") if one["verdict"] != "ok"]
    assert found["seen"] == "2 pods wait for 1 free place"


@pytest.mark.parametrize(
    ("unavailable", "surge", "replicas", "surging"),
    [
        ("0", "1", 3, True),
        ("0%", "1%", 3, True),
        ("25%", "25%", 1, True),
        ("25%", "25%", 3, True),
        ("25%", "25%", 4, False),
        ("33%", "1", 3, True),
        ("34%", "1", 3, False),
        ("25%", "0", 3, False),
        ("25%", "0%", 3, False),
        ("1", "1", 3, False),
        ("", "0", 3, False),
    ],
)
def test_a_rolling_update_is_resolved_as_by_kubernetes(
    unavailable: str, surge: str, replicas: int, surging: bool
) -> None:
    one = doctor_checks.Workload(
        "Deployment", "shop", "web", replicas=replicas, unavailable=unavailable, surge=surge
    )
    assert one.surging == surging


def test_without_a_scheduler_the_escape_is_unsure(cluster: clusters.Cluster) -> None:
    cluster.api.objects.remove("pods", (clusters.HOME, "topolog-extender-a"))
    examined = doctor(cluster)
    assert examined.wrong() == {"P03": "unsure"}
    (found,) = examined.of("P03")
    assert found["fix"] == (
        f"topolog doctor policies --scheduler-name {OURS}, with those that call the extender"
    )
    assert doctor(cluster, "--scheduler-name", OURS).wrong() == {}
    assert doctor(cluster, "--scheduler-name", "another").wrong() == {"P03": "problem"}


def test_a_template_with_a_node_escapes_every_scheduler(cluster: clusters.Cluster) -> None:
    """No scheduler is called for its pods, whichever of them call the extender."""
    cluster.api.objects.remove("pods", (clusters.HOME, "topolog-extender-a"))
    workload(cluster, "pinned", node="n1")
    found = {one["verdict"]: one for one in doctor(cluster).of("P03")}
    assert found["problem"]["subject"] == "Deployment shop/pinned"
    assert found["problem"]["seen"] == "its template has nodeName n1, so that no scheduler places its pods"
    assert found["problem"]["fix"].startswith("remove spec.nodeName")


def test_a_template_without_pods_may_escape(cluster: clusters.Cluster) -> None:
    cluster.api.objects.remove("pods", (clusters.HOME, "topolog-extender-a"))
    for name in ("web-1", "web-2"):
        cluster.api.objects.remove("pods", ("shop", name))
    (found,) = doctor(cluster).of("P03")
    assert (found["verdict"], found["subject"]) == ("unsure", "0 pods, 1 template")
    cluster.api.objects.remove("deployments", ("shop", "web"))
    assert [one["verdict"] for one in doctor(cluster).of("P03")] == ["ok"]


@pytest.mark.parametrize("resource", ["pods", "nodes", "workloadpolicies", "deployments"])
def test_what_may_not_be_read_is_unsure(cluster: clusters.Cluster, resource: str) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL,
        lambda request: request.path.endswith(f"/{resource}"),
        status=403,
        times=1000,
    )
    run = doctor(cluster)
    assert run.wrong() == {check.id: "unsure" for check in diagnosis.CHECKS}
    runs.refused(run, resource)


def test_a_kind_that_is_not_served_has_no_objects(cluster: clusters.Cluster) -> None:
    cluster.api.objects.serve("workloadpolicies", served=False)
    assert doctor(cluster).wrong() == {"P07": "problem"}


def test_the_checks_are_those_that_the_plugins_declare(cluster: clusters.Cluster) -> None:
    declared = examination.checks(plugins.catalog().classes)
    assert {check.id for check in declared} == {check.id for check in diagnosis.CHECKS}
    run = runs.doctor(
        "policies", environ={**cluster.environ, "TOPOLOG_PLUGINS_ENABLED": "JobAffinity,NodeLabelPriority"}
    )
    assert (run.checks, run.code) == ([], 0)
