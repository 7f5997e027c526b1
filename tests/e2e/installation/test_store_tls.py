"""The bundled store of a running installation is switched to TLS, and its certificate is asked for."""

import base64
import os
import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import clusters, readiness, workloads
from tests.support.e2e.nodes import containers, process_kubelets
from tests.support.store import servers

LACKING = process_kubelets.lacking()
BINARY = servers.tls_binary()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
    pytest.mark.skipif(not BINARY, reason="no store with TLS: set TLS_STORE to the path of one"),
]

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
HOME = readiness.HOME


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    with readiness.empty_cluster(binary, "a") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kubelet(
    cluster: clusters.Cluster, tmp_path_factory: pytest.TempPathFactory
) -> process_kubelets.ProcessKubelet:
    """The overlay dev, which runs, and then the same with the component."""
    server = {"/image/bin/valkey-server": pathlib.Path(BINARY).resolve()}
    kubelet = cluster.start_process_kubelet(
        HOME, images={"valkey": containers.Image(server, {}, ["valkey-server"])}
    )
    cluster.kubectl("apply", "-k", DEPLOY / "overlays" / "dev")
    readiness.await_ready(cluster)
    folder = tmp_path_factory.mktemp("kustomization")
    relative = os.path.relpath(DEPLOY, folder.resolve())
    (folder / "kustomization.yaml").write_text(
        f"resources: [{relative}/overlays/dev]\ncomponents: [{relative}/components/store-tls]\n"
    )
    cluster.kubectl("apply", "-k", folder)
    polling.eventually(lambda: _switched(cluster), "every pod is one of the new templates", within=180)
    readiness.await_ready(cluster)
    return kubelet


def _switched(cluster: clusters.Cluster) -> bool:
    """Whether every pod mounts the CA of the store, the server's key, or needs neither."""
    pods = cluster.pods(HOME)
    return bool(pods) and all(
        workloads.name(pod).startswith("topolog-bootstrap")
        or any(
            volume.get("secret", {}).get("secretName") == "topolog-valkey-tls"
            for volume in pod["spec"]["volumes"]
        )
        for pod in pods
    )


def environment(cluster: clusters.Cluster, role: str) -> dict[str, str]:
    found = cluster.api().get(f"/api/v1/namespaces/{HOME}/secrets/topolog-store")
    return {"TOPOLOG_STORE_URL": base64.b64decode(found["data"][f"{role}-url"]).decode()}


def test_every_process_reaches_the_store_by_tls(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    given = environment(cluster, "doctor")
    assert given["TOPOLOG_STORE_URL"].startswith("rediss://")
    done = kubelet.run(kubelet.running("recorder")[0], "topolog", "doctor", "store", "-o", "wide", env=given)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "transport" in line]
    assert "TLS" in line


def test_bootstrap_finds_the_servers_certificate_current(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    (pod,) = kubelet.running("bootstrap")
    (container,) = pod.containers
    arguments = [each for each in container.spec["args"][1:] if not each.startswith("--every")]
    assert "--store-tls" in arguments
    assert container.process is not None
    variables = pathlib.Path(f"/proc/{container.process.pid}/environ").read_text().split("\0")
    given = dict(each.split("=", 1) for each in variables if each)
    done = kubelet.run(pod, "topolog", "bootstrap", *arguments, env=given)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("topolog-valkey-tls")]
    assert line.endswith("the server shows it")
