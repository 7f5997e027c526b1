"""``topolog doctor cluster --pre``: whether a cluster is ready for an installation."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from app.doctor.cluster import prerequisites
from app.simulation.apiserver import faults
from tests.support import manifests
from tests.support.doctor import clusters, runs

Json = dict[str, Any]
BEFORE = {"C01", "C04", "C12", "C13", "C14"}
"""Checks that a cluster passes which is ready for an installation."""


@pytest.fixture
def empty(tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster without Topolog."""
    with clusters.running(tmp_path) as made:
        made.add("storageclasses", storage_class("fast", usual=True))
        yield made


def storage_class(name: str, *, usual: bool) -> Json:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"} if usual else {}
    return {"metadata": {"name": name, "annotations": marks}, "provisioner": "example.com/disk"}


@pytest.mark.parametrize("group", ["storageclass", "storageclass.beta"])
def test_a_class_that_kubernetes_takes_as_the_default_one_is_found(group: str) -> None:
    """The admission plugin DefaultStorageClass and the controller of volumes read both annotations."""
    annotation = f"{group}.kubernetes.io/is-default-class"

    def verdict(value: str) -> str:
        made = storage_class("disk", usual=False)
        made["metadata"]["annotations"] = {annotation: value}
        return prerequisites.storage([storage_class("slow", usual=False), made]).verdict

    assert (verdict("true"), verdict("false")) == ("ok", "problem")


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
    found = {("", "secrets")}  # Those of Helm.
    # Optional parts need the Prometheus Operator or cert-manager, and the chart is made from the overlays.
    apart = {"monitoring", "cert-manager", "charts"}
    for path in (each for each in manifests.DEPLOY.rglob("*.yaml") if not apart & set(each.parts)):
        for document in manifests.documents(path):
            kind = str((document or {}).get("kind", ""))
            if kind and not kind.endswith(("Configuration", "Kustomization", "Component")):
                group, _, _ = str(document["apiVersion"]).rpartition("/")
                found.add((group, f"{kind.lower()}s".replace("policys", "policies")))
    assert found == {*prerequisites.CREATED}
