"""The doctor on a real control plane: what it reads of kube-scheduler, and of the API server."""

import base64
import pathlib

import pytest

from app.serving import issuing
from tests.support.doctor import runs
from tests.support.e2e import api_client, clusters, kube_schedulers

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"
SERVICE = "topolog-extender.topolog-system.svc"


@pytest.fixture(scope="module")
def plane(cluster: clusters.Cluster) -> clusters.Cluster:
    """The cluster, with certificates in its folder."""
    issuing.issue(cluster.folder / "tls", [SERVICE])
    return cluster


def configuration(plane: clusters.Cluster, name: str) -> api_client.Object:
    tls = plane.folder / "tls"
    return kube_schedulers.configuration(
        DEPLOY / "scheduler" / "kube-scheduler-service.yaml",
        ca=tls / "ca.crt",
        certificate=tls / "scheduler.crt",
        key=tls / "scheduler.key",
        scheduler_name=name,
    )


def asked(plane: clusters.Cluster, running: kube_schedulers.Scheduler, *arguments: str) -> runs.Run:
    """The doctor's answer about a running kube-scheduler, by the file that it was started with."""
    return runs.doctor(
        "scheduler",
        "--configz",
        running.url,
        "--server-cert",
        str(plane.folder / "tls" / "server.crt"),
        *arguments,
        environ={"TOPOLOG_KUBE_KUBECONFIG": str(plane.kubeconfig())},
    )


def test_a_running_kube_scheduler_is_read_and_compared_with_its_file(plane: clusters.Cluster) -> None:
    running = plane.start_scheduler("right", configuration(plane, "right"))
    file = plane.folder / "scheduler-right.yaml"
    run = asked(plane, running, "--file", str(file))
    assert (run.wrong(), run.code) == ({}, 0)
    assert "S14" in {one["id"] for one in run.checks}
    file.write_text(file.read_text().replace("weight: 100", "weight: 90"))
    run = asked(plane, running, "--file", str(file))
    assert run.wrong() == {"S14": "problem"}
    assert "weight" in run.of("S14")[0]["seen"]


def test_mistakes_of_a_running_kube_scheduler_are_found(plane: clusters.Cluster) -> None:
    config = configuration(plane, "wrong")
    key = (plane.folder / "tls" / "scheduler.key").read_bytes()
    config["percentageOfNodesToScore"] = 10
    entry = config["extenders"][0]
    entry |= {"ignorable": True, "httpTimeout": "1s", "nodeCacheCapable": False, "weight": 1}
    del entry["bindVerb"], entry["preemptVerb"], entry["tlsConfig"]["keyFile"]
    entry["tlsConfig"] |= {"keyData": base64.b64encode(key).decode(), "serverName": "other.example"}
    running = plane.start_scheduler("wrong", config)
    run = asked(plane, running, "--file", str(plane.folder / "scheduler-wrong.yaml"))
    assert run.wrong() == {
        "S02": "warning",
        "S03": "problem",
        "S04": "problem",
        "S05": "warning",
        "S06": "problem",
        "S07": "warning",
        "S08": "warning",
        "S09": "problem",
        "S10": "warning",
    }
    assert base64.b64encode(key).decode()[:40] not in run.text


def test_a_kube_scheduler_that_refuses_the_caller_is_unsure(plane: clusters.Cluster) -> None:
    running = plane.start_scheduler("refusing", configuration(plane, "refusing"))
    run = runs.doctor(
        "scheduler",
        "--configz",
        running.url,
        "--file",
        str(plane.folder / "scheduler-refusing.yaml"),
        "--server-cert",
        str(plane.folder / "tls" / "server.crt"),
        environ={"TOPOLOG_KUBE_KUBECONFIG": str(plane.kubeconfig("kube-controller-manager"))},
    )
    assert run.wrong() == {"S14": "unsure"}
