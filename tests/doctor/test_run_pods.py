"""``topolog doctor run`` on pods: through the API server's proxy, and from a pod."""

import json
import pathlib
from collections.abc import Iterator, Mapping

import pytest

from app.doctor import api_reader
from app.doctor.run import processes
from app.kube.client import clients
from app.simulation.apiserver import faults, requests
from app.telemetry import metrics, probes, readiness
from tests.support.doctor import clusters, runs
from tests.support.monitoring import installations

READYZ = f"/api/v1/namespaces/{clusters.HOME}/pods/topolog-recorder-a:8081/proxy/readyz"
METRICS = READYZ.replace("readyz", "metrics")
UNREACHED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "error trying to reach service: dial tcp 10.0.0.7:8081: connect: connection refused",
    "reason": "ServiceUnavailable",
    "code": 503,
}
"""What a real API server answers if it cannot connect to the pod (k8s.io/apimachinery/pkg/util/proxy)."""

UP = b"# TYPE topolog_store_up gauge\ntopolog_store_up 1\n"
"""Metrics of a process that does not lead."""


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster with one pod of Topolog."""
    with clusters.running(tmp_path) as made:
        made.add_own_pod("topolog-recorder-a", metrics.RECORDER)
        yield made


def reply(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Any\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def serve(cluster: clusters.Cluster, replies: Mapping[str, bytes]) -> None:
    """The API server answers these paths so."""
    for path, raw in replies.items():

        def asked(request: requests.Request, path: str = path) -> bool:
            return request.path == path

        cluster.api.faults.add(faults.FaultKind.RAW, asked, raw=raw, times=10)


def examined(cluster: clusters.Cluster) -> runs.Run:
    return runs.doctor("run", "--namespace", clusters.HOME, environ=cluster.environ)


def ready(cluster: clusters.Cluster) -> runs.Json:
    """The result of R01 for the pod."""
    (result,) = examined(cluster).of("R01")
    assert result["subject"] == f"recorder {clusters.HOME}/topolog-recorder-a"
    return result


def of_recorder(cluster: clusters.Cluster) -> dict[str, tuple[str, str]]:
    """ID -> verdict and what was seen of the recorder, where it is the subject."""
    found = [one for one in examined(cluster).checks if one["subject"].startswith(metrics.RECORDER)]
    return {one["id"]: (one["verdict"], one["seen"]) for one in found}


def show(cluster: clusters.Cluster, **status: object) -> None:
    """Set the status of the pod, whose container is named as in deploy/."""
    containers = [{"name": name, "image": "i"} for name in ("recorder", "beside")]
    cluster.change("pods", clusters.HOME, "topolog-recorder-a", containers=containers)
    key = (clusters.HOME, "topolog-recorder-a")
    cluster.api.objects.change("pods", key, lambda one: {**one, "status": status})


def waits(name: str, reason: str) -> runs.Json:
    return {"name": name, "state": {"waiting": {"reason": reason}}}


def ended(name: str, reason: str, code: int) -> runs.Json:
    return {"name": name, "state": {"terminated": {"reason": reason, "exitCode": code}}}


RUNS = {"name": "recorder", "state": {"running": {}}}
STOPPED = {
    "crashes": ({"containerStatuses": [waits("recorder", "CrashLoopBackOff")]}, "recorder: CrashLoopBackOff"),
    "has crashed": (
        {"containerStatuses": [ended("recorder", "Error", 2)]},
        "recorder: Error, exit code 2",
    ),
    "an init container that crashes": (
        {
            "initContainerStatuses": [ended("first", "Completed", 0), waits("migrate", "CrashLoopBackOff")],
            "containerStatuses": [waits("recorder", "PodInitializing")],
        },
        "migrate: CrashLoopBackOff",
    ),
    "an init container that has crashed": (
        {
            "initContainerStatuses": [ended("migrate", "Error", 4)],
            "containerStatuses": [waits("recorder", "PodInitializing")],
        },
        "migrate: Error, exit code 4",
    ),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_container_that_does_not_run_is_a_problem_and_no_process(
    cluster: clusters.Cluster, name: str
) -> None:
    """Although the API server's proxy answers as for a pod that a NetworkPolicy keeps from it."""
    status, seen = STOPPED[name]
    show(cluster, **status)
    serve(cluster, {READYZ: reply(503, json.dumps(UNREACHED).encode())})
    assert of_recorder(cluster) == {
        "R01": ("problem", f"container {seen}"),
        "R02": ("problem", "0 of 1 answering"),
    }


def test_an_extender_of_several_workers_is_ready_and_not_measured(cluster: clusters.Cluster) -> None:
    cluster.add_own_pod("topolog-extender-a", metrics.EXTENDER)
    own = {path.replace("recorder", "extender"): path for path in (READYZ, METRICS)}
    serve(cluster, dict(zip(own, (reply(200, b"ready\n"), reply(501, probes.SEVERAL)), strict=True)))
    found = [one for one in examined(cluster).checks if one["subject"].startswith(metrics.EXTENDER)]
    assert {one["id"]: one["verdict"] for one in found} == {
        "R01": "ok",
        "R02": "ok",
        **dict.fromkeys(("R04", "R05", "R07", "R09", "R10", "R11", "R12", "R13"), "unsure"),
    }
    (one,) = (one for one in found if one["id"] == "R07")
    assert one["seen"].startswith("metrics need a single worker")
    assert one["fix"] == "set server.workers to 1, and run more replicas"


def test_a_process_is_asked_whatever_runs_beside_it(cluster: clusters.Cluster) -> None:
    done = [ended("migrate", "Completed", 0)]
    show(cluster, initContainerStatuses=done, containerStatuses=[RUNS, waits("beside", "CrashLoopBackOff")])
    serve(cluster, {READYZ: reply(200, b"ready\n"), METRICS: reply(200, UP)})
    assert of_recorder(cluster)["R01"] == ("ok", "ready")
    assert of_recorder(cluster)["R02"] == ("ok", "1")


def test_a_pod_that_has_ended_is_no_process(cluster: clusters.Cluster) -> None:
    """As one that was evicted: its object stays, and another pod has taken its place."""
    serve(cluster, {READYZ: reply(200, b"ready\n"), METRICS: reply(200, UP)})
    cluster.add_own_pod("topolog-recorder-b", metrics.RECORDER)
    key = (clusters.HOME, "topolog-recorder-b")
    cluster.api.objects.change("pods", key, lambda one: {**one, "status": {"phase": "Failed"}})
    assert ready(cluster)["verdict"] == "ok"


def test_a_pod_that_terminates_is_no_process(cluster: clusters.Cluster) -> None:
    """In a rolling update its probes fail while another pod is ready in its place."""
    serve(cluster, {READYZ: reply(200, b"ready\n"), METRICS: reply(200, UP)})
    cluster.add_own_pod("topolog-recorder-b", metrics.RECORDER)
    key = (clusters.HOME, "topolog-recorder-b")

    def deleted(one: runs.Json) -> runs.Json:
        metadata = {**one["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        return {**one, "metadata": metadata, "status": {"containerStatuses": [ended("recorder", "Error", 1)]}}

    cluster.api.objects.change("pods", key, deleted)
    assert ready(cluster)["verdict"] == "ok"


def test_processes_that_are_not_seen_are_not_counted(cluster: clusters.Cluster) -> None:
    """Those that answer are enough, but one that is not seen may lead."""
    serve(cluster, {READYZ: reply(503, json.dumps(UNREACHED).encode())})
    found = of_recorder(cluster)
    assert found["R02"] == ("unsure", "0 of 1 answering")
    assert found["R03"][0] == "unsure"
    cluster.add_own_pod("topolog-recorder-b", metrics.RECORDER)
    other = {path.replace("recorder-a", "recorder-b"): body for path, body in ((READYZ, b""), (METRICS, UP))}
    serve(cluster, {path: reply(200, body) for path, body in other.items()})
    found = of_recorder(cluster)
    assert found["R02"] == ("ok", "1 of 2 answering")
    assert found["R03"][0] == "unsure"
    assert found["R03"][1].startswith(f"{clusters.HOME}/topolog-recorder-a may lead: ")


@pytest.mark.parametrize(
    "refusal",
    [
        reply(503, json.dumps(UNREACHED).encode()),
        reply(502, b"<html>bad gateway</html>"),
        reply(503, b"<html>no healthy upstream</html>"),
        reply(504, b"<html>gateway timeout</html>"),
    ],
    ids=["no connection", "502", "503", "504"],
)
def test_a_pod_that_the_api_server_does_not_reach_is_unsure(
    cluster: clusters.Cluster, refusal: bytes
) -> None:
    serve(cluster, {READYZ: refusal})
    result = ready(cluster)
    assert result["verdict"] == "unsure"
    assert "NetworkPolicy" in result["seen"]
    assert result["fix"].startswith("admit the API server to port 8081 of Topolog's pods")


def test_an_api_server_that_waits_for_a_pod_is_unsure(
    cluster: clusters.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a NetworkPolicy that discards packets."""
    monkeypatch.setattr(processes, "_SECONDS", 0.2)
    cluster.api.faults.add(faults.FaultKind.STALL, lambda request: request.path == READYZ)
    result = ready(cluster)
    assert (result["verdict"], "NetworkPolicy" in result["seen"]) == ("unsure", True)
    assert result["fix"].startswith("admit the API server to port 8081")


def test_a_pod_that_answers_and_is_not_ready_is_a_problem(cluster: clusters.Cluster) -> None:
    status, body = readiness.report({"store": "the store is away", "log": None})
    serve(cluster, {READYZ: reply(status, body), METRICS: reply(200, b"")})
    result = ready(cluster)
    assert (result["verdict"], result["seen"]) == ("problem", "store: the store is away")


def test_a_missing_right_is_named(cluster: clusters.Cluster) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL, lambda request: request.path == READYZ, status=403, times=10
    )
    result = ready(cluster)
    assert result["verdict"] == "unsure"
    assert "bind the Role topolog-doctor of deploy/roles (it may get pods/proxy)" in result["fix"]


def test_a_pod_asks_the_others_itself(healthy: installations.Installation, cluster: clusters.Cluster) -> None:
    """The API server does not reach the auditor, and the pod does not reach the recorder."""
    port = healthy.processes[metrics.AUDITOR].health
    container = {"name": "c", "image": "i", "ports": [{"name": "health", "containerPort": port}]}
    cluster.add_own_pod("topolog-auditor-a", metrics.AUDITOR, containers=[container])
    for name in ("topolog-auditor-a", "topolog-recorder-a"):
        cluster.api.objects.change(
            "pods", (clusters.HOME, name), lambda one: {**one, "status": {"podIP": "127.0.0.1"}}
        )
    client = clients.connect(cluster.environ["TOPOLOG_KUBE_KUBECONFIG"])
    serve(cluster, {READYZ: reply(200, b"ready\n"), METRICS: reply(200, b"")})
    found = processes.of_cluster(api_reader.ApiReader(client), client, clusters.HOME, inside=True)
    assert {one.role: (one.ready, bool(one.samples)) for one in found} == {
        metrics.AUDITOR: (True, True),
        metrics.RECORDER: (True, False),
    }
