"""The commands of the README in a clone, and those of the tutorial that continues it, as they are written.

Both run beside an empty cluster, for which `topolog up` runs on this machine; the kube-scheduler of the
README runs beside the usual one.
"""

import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.support import child_processes, console_sessions, how_to_pages, polling
from tests.support.e2e import clusters, page_sessions, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

ROOT = how_to_pages.ROOT
DEPLOY = ROOT / "deploy"
PAGES = how_to_pages.sessions(cluster=True)
TUTORIAL = "tutorial.md"
README = "README.md"
PLAIN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.fixture
def beside(binary: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[console_sessions.Session]:
    """A session beside a cluster with a policy and a pod, for a `topolog up` on free ports."""
    with clusters.Cluster(binary) as empty:
        empty.start_controller_manager()
        empty.add_nodes("n1", labels={"topology.kubernetes.io/zone": "zone-a"})
        empty.kubectl("apply", "-f", DEPLOY / "crds" / "kosmos.io_workloadpolicies.yaml")
        empty.await_done("wait", "--for=condition=established", "crd/workloadpolicies.kosmos.io")
        (spread,) = how_to_pages.fenced(ROOT / "docs" / TUTORIAL, "yaml")
        empty.kubectl("apply", "-f", "-", stdin=spread)
        empty.apply(workloads.pod("default", "web-1", app="web", **{workloads.POLICY_LABEL: "spread"}))
        port, health = child_processes.free_port(row=2), child_processes.free_port(row=8)
        yield page_sessions.opened(
            tmp_path,
            empty,
            binary,
            TOPOLOG_SERVER_PORT=str(port),
            TOPOLOG_SERVER_HEALTH_PORT=str(health),
            TOPOLOG_CLIENT_URL=f"https://127.0.0.1:{port}",
            PIP_CACHE_DIR=os.environ.get("PIP_CACHE_DIR", str(pathlib.Path.home() / ".cache" / "pip")),
        )


NAMES = {".venv/bin/topolog up": "topolog up"}  # the one that is left running


def test_the_commands_of_the_tutorial_run(beside: console_sessions.Session) -> None:
    names = {
        "REPOSITORY": str(ROOT),
        "NAME-OF-THIS-MACHINE": "localhost",
        "NAME-OF-A-POD": "web-1",
    }
    beside.run(PAGES[TUTORIAL], NAMES | names)


def test_the_commands_of_the_readme_run_in_a_clone(beside: console_sessions.Session) -> None:
    shutil.rmtree(beside.work)
    subprocess.run(["git", "clone", "--quiet", ROOT, beside.work], check=True)
    names = {
        "ns/name": "default/spread",
        "ns/pod": "default/web-1",
        "-f FILE": "-f deploy/scheduler/kube-scheduler-service.yaml",
        "score FILE": "score cluster.json",
        "2026-07-01T10:00:00Z": console_sessions.NOW,
    }
    blocks = [block for block in PAGES[README] if "kubectl" not in block.text]
    output = beside.run(blocks, NAMES | names)
    assert "as expected" in output, "the summary of the demo"
    assert "node-2  10" in output, "the scores of cluster.json"


def test_the_scheduler_of_the_readme_and_the_usual_one_place_their_pods(cluster: clusters.Cluster) -> None:
    """Both with leader election. No extender runs: the second one is without its entry."""
    (block,) = how_to_pages.fenced(ROOT / README, "yaml")
    second = {**yaml.safe_load(block), "extenders": []}
    (profile,) = second["profiles"]
    cluster.add_nodes("n1")
    cluster.start_scheduler("default", PLAIN, elected=True)
    cluster.start_scheduler("second", second, elected=True)
    names = ("default-scheduler", profile["schedulerName"])
    for name in names:
        cluster.apply(workloads.pod("default", f"of-{name}", scheduler=name))

    def placed() -> set[str]:
        return {pod["metadata"]["name"] for pod in cluster.pods("default") if pod["spec"].get("nodeName")}

    expected = {f"of-{name}" for name in names}
    polling.eventually(lambda: placed() == expected, "both are placed", within=60, seen=placed)
