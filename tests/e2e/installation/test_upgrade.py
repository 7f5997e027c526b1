"""An installation of an earlier version, by its own manifests, becomes one of this version under load.

The earlier version is a commit of the history: its chart, its overlay and its source. The pods run as in
tests/e2e/installation/test_installation.py.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.e2e import control_plane_builds, go_programs
from tests.support import polling
from tests.support.charts import generated_files
from tests.support.e2e import api_client, clusters, readiness, workloads
from tests.support.e2e.nodes import containers, earlier, process_kubelets

LACKING = process_kubelets.lacking() or earlier.lacking()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]
HOME = "topolog-system"
OVERLAY = pathlib.Path(__file__).parents[3] / "deploy" / "overlays" / "dev"
PODS = 40
"""What the policy places: 15 in one zone, 25 in the other."""
Step = Callable[[clusters.Cluster, pathlib.Path], None]


@pytest.fixture
def former(tmp_path: pathlib.Path) -> pathlib.Path:
    """The source and the manifests of the earlier version."""
    return earlier.unpacked(tmp_path / "earlier")


@pytest.fixture
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """An empty cluster of two zones with a scheduler."""
    with readiness.empty_cluster(binary, "a", "b") as cluster:
        yield cluster


@pytest.fixture
def kubelet(cluster: clusters.Cluster, former: pathlib.Path) -> process_kubelets.ProcessKubelet:
    """A kubelet that has the images of both versions."""
    return cluster.start_process_kubelet(HOME, images={earlier.NAME: earlier.image(former)})


def helm_run(cluster: clusters.Cluster, *arguments: str) -> None:
    try:
        program = go_programs.HELM[4].built()
    except control_plane_builds.GoMissing as missing:
        pytest.skip(str(missing))
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/proc/nonexistent",
        "KUBECONFIG": str(cluster.kubeconfig()),
    }
    done = subprocess.run(
        [str(program), *arguments, "--namespace", HOME],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def install_chart(cluster: clusters.Cluster, former: pathlib.Path) -> None:
    image = f"image.repository={earlier.NAME}"
    chart = str(former / "deploy" / "charts" / "topolog")
    helm_run(cluster, "install", "topolog", chart, "--create-namespace", "--set", image)


def upgrade_chart(cluster: clusters.Cluster, former: pathlib.Path) -> None:
    helm_run(cluster, "upgrade", "topolog", str(generated_files.CHART), "--set", "image.repository=topolog")


def apply_former(cluster: clusters.Cluster, former: pathlib.Path) -> None:
    text = cluster.kubectl("kustomize", str(former / "deploy" / "overlays" / "dev"))
    renamed = text.replace("image: localhost/topolog:", f"image: localhost/{earlier.NAME}:")
    assert renamed != text
    cluster.kubectl("apply", "-f", "-", stdin=renamed)


def apply_present(cluster: clusters.Cluster, former: pathlib.Path) -> None:
    cluster.kubectl("apply", "-k", str(OVERLAY))


@pytest.mark.parametrize(
    ("install", "upgrade"),
    [
        pytest.param(install_chart, upgrade_chart, id="chart"),
        pytest.param(apply_former, apply_present, id="manifests"),
    ],
)
def test_an_earlier_installation_is_upgraded_under_load_and_loses_no_pod(
    cluster: clusters.Cluster,
    kubelet: process_kubelets.ProcessKubelet,
    former: pathlib.Path,
    install: Step,
    upgrade: Step,
) -> None:
    install(cluster, former)
    readiness.await_ready(cluster, within=180)
    assert images(cluster) == {earlier.NAME}
    cluster.apply(workloads.policy("default", "load", "zone", "load", a=15, b=25))
    cluster.apply(workloads.deployment("default", "load", 10, policy="load"))
    polling.eventually(lambda: len(running(cluster)) == 10, "ten pods run", within=120, every=0.5)
    placed = {pod["metadata"]["uid"] for pod in running(cluster)}
    assert not ready(cluster, kubelet)
    upgrade(cluster, former)
    for replicas in range(15, PODS + 15, 5):  # More than the policy has places for.
        cluster.kubectl("scale", "deployment/load", f"--replicas={replicas}")
    polling.eventually(
        lambda: images(cluster) == {"topolog"}, "no earlier pod is left", within=240, every=0.5
    )
    readiness.await_ready(cluster, within=240)
    polling.eventually(lambda: len(running(cluster)) >= PODS, "all of it runs", within=120, every=0.5)
    nodes = [pod["spec"]["nodeName"] for pod in running(cluster)]
    assert (nodes.count("n-a"), nodes.count("n-b"), len(nodes)) == (15, 25, PODS)
    assert placed <= {pod["metadata"]["uid"] for pod in running(cluster)}
    # The recorder's pod has migrated the store of the earlier version.
    assert ready(cluster, kubelet)
    for log in kubelet.folder.glob("*.log"):
        assert "forbidden" not in log.read_text(errors="replace").lower(), log.name


def images(cluster: clusters.Cluster) -> set[str]:
    """The repositories of Topolog's own images among the pods."""
    found = {
        one["image"].rpartition("/")[2].partition(":")[0]
        for pod in cluster.pods(HOME)
        for one in pod["spec"]["containers"]
    }
    return found - {"valkey", "kube-scheduler"}


def running(cluster: clusters.Cluster) -> list[api_client.Object]:
    return workloads.running(cluster, "default", "of=load")


def ready(cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet) -> bool:
    """Whether this version works with the store as it is, by `topolog migrate status`."""
    api, prefix = cluster.api(), f"/api/v1/namespaces/{HOME}"
    address = api.get(f"{prefix}/services/topolog-valkey")["spec"]["clusterIP"]
    encoded = api.get(f"{prefix}/secrets/topolog-store")["data"]["migrator-url"]
    url = base64.b64decode(encoded).decode().replace("topolog-valkey", address)
    done = subprocess.run(
        kubelet.on_a_node(sys.executable, "-m", "app.cli", "migrate", "status", "-o", "json"),
        env={"PATH": os.environ["PATH"], "TOPOLOG_STORE_URL": url},
        cwd=containers.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found: bool = json.loads(done.stdout)["ready"]
    assert done.returncode == (0 if found else 1), done.stderr
    return found
