"""``topolog doctor cluster``: what is reported of pods that are not ready."""

import pytest

from app.simulation.apiserver import faults
from tests.support.doctor import cluster_changes, clusters, runs

HOME = clusters.HOME


def doctor(cluster: clusters.Cluster) -> runs.Run:
    return runs.doctor("cluster", environ=cluster.environ)


def test_the_event_of_a_pod_is_repeated(cluster: clusters.Cluster) -> None:
    cluster_changes.status(
        "topolog-auditor-0",
        containerStatuses=[cluster_changes.waiting("CreateContainerConfigError", 'secret "x" not found')],
    )(cluster)
    (found,) = [one for one in doctor(cluster).of("C06") if one["verdict"] == "problem"]
    assert found["seen"] == 'c: CreateContainerConfigError: secret "x" not found'


def test_a_volume_that_is_missing_is_named_by_its_event(cluster: clusters.Cluster) -> None:
    creating = cluster_changes.waiting("ContainerCreating", "")
    cluster_changes.status("topolog-auditor-0", phase="Pending", conditions=[], containerStatuses=[creating])(
        cluster
    )
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


@pytest.mark.parametrize(("revision", "deleted"), [("a", True), ("b", False)])
def test_a_pod_that_its_stateful_set_does_not_replace_has_to_be_deleted(
    cluster: clusters.Cluster, revision: str, deleted: bool
) -> None:
    cluster_changes.of_template(revision)(cluster)
    (found,) = [one for one in doctor(cluster).of("C06") if one["verdict"] == "problem"]
    assert found["seen"] == "c: CrashLoopBackOff: back-off 5m0s"
    assert (found["fix"] == f"kubectl -n {HOME} delete pod topolog-valkey-0") is deleted
    assert ("replaces no pod that is not ready" in found["why"]) is deleted


def test_without_the_right_to_read_stateful_sets_a_pod_is_found_all_the_same(
    cluster: clusters.Cluster,
) -> None:
    cluster_changes.of_template("a")(cluster)
    refused = faults.FaultKind.FAIL
    cluster.api.faults.add(refused, lambda request: "/statefulsets" in request.path, status=403, times=100)
    run = doctor(cluster)
    assert run.wrong() == {"C06": "problem"}
    assert any(" describe pod topolog-valkey-0; " in one["fix"] for one in run.of("C06"))
