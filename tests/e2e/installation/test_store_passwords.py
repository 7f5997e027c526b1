"""The passwords of the bundled store are replaced in an installation that runs, while pods are placed.

The commands are those of docs/how-to/replace-the-passwords.md, one block for each step.
"""

import base64
import pathlib
import shutil
import threading
from collections.abc import Iterator

import pytest

from app import exit_codes
from tests.support import console_sessions, how_to_pages
from tests.support.e2e import clusters, readiness, workloads
from tests.support.e2e.nodes import process_kubelets

LACKING = process_kubelets.lacking()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

HOME = readiness.HOME
PAGE = "replace-the-passwords.md"
BLOCKS = how_to_pages.sessions(cluster=True)[PAGE]
SECRET = f"/api/v1/namespaces/{HOME}/secrets/topolog-store"
OF_LOAD = "of=load"


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    with readiness.empty_cluster(binary, "a", "b") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kubelet(cluster: clusters.Cluster) -> process_kubelets.ProcessKubelet:
    kubelet = cluster.start_process_kubelet(HOME)
    cluster.kubectl("apply", "-k", how_to_pages.ROOT / "deploy" / "overlays" / "dev")
    readiness.await_ready(cluster)
    return kubelet


@pytest.fixture
def session(
    cluster: clusters.Cluster, binary: pathlib.Path, tmp_path: pathlib.Path
) -> console_sessions.Session:
    """A workstation with the kubeconfig of an admin."""
    (tmp_path / ".kube").mkdir()
    shutil.copy(cluster.kubeconfig(), tmp_path / ".kube" / "config")
    made = console_sessions.Session(tmp_path, HOME=str(tmp_path))
    made.environ.pop("KUBECONFIG", None)
    made.add("kubectl", f'exec {binary} kubectl "$@"')
    return made


def urls(cluster: clusters.Cluster) -> dict[str, str]:
    """Key -> URL of a user."""
    data = cluster.api().get(SECRET)["data"]
    return {key: base64.b64decode(each).decode() for key, each in data.items() if key.endswith("-url")}


def doctor(kubelet: process_kubelets.ProcessKubelet, url: str) -> tuple[int, str]:
    given = {"TOPOLOG_STORE_URL": url}
    done = kubelet.run(kubelet.running("recorder")[0], "topolog", "doctor", "store", env=given)
    return done.returncode, done.stdout + done.stderr


def test_each_step_is_taken_under_load_and_no_pod_is_lost(
    cluster: clusters.Cluster,
    kubelet: process_kubelets.ProcessKubelet,
    session: console_sessions.Session,
) -> None:
    former = urls(cluster)
    assert doctor(kubelet, former["doctor-url"])[0] == 0
    cluster.apply(workloads.policy("default", "load", "zone", "load", a=24, b=36))
    cluster.apply(workloads.deployment("default", "load", 3, policy="load"))
    stopped = threading.Event()
    replicas = iter(range(6, 73, 3))  # The policy places 60 of 72.

    def grow() -> None:
        for count in replicas:
            if stopped.wait(3):
                return
            cluster.kubectl("scale", "deployment/load", f"--replicas={count}")

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        for number, block in enumerate(BLOCKS):
            session.run([block], {})
            readiness.await_ready(cluster)
            accepted = doctor(kubelet, former["doctor-url"])[0] == 0
            assert accepted == (number < 2), "the former password is accepted until the last step"
            assert doctor(kubelet, urls(cluster)["doctor-url"])[0] == 0
            assert (urls(cluster) == former) == (number == 0)
    finally:
        stopped.set()
        growing.join()
    cluster.kubectl("scale", "deployment/load", "--replicas=72")
    placed = workloads.await_placed(cluster, "default", OF_LOAD, placed=60, waiting=12, within=180)
    nodes = [pod["spec"]["nodeName"] for pod in placed]
    assert (nodes.count("n-a"), nodes.count("n-b"), len(nodes)) == (24, 36, 60)
    code, text = doctor(kubelet, former["recorder-url"])
    assert (code, "WRONGPASS" in text) != (0, False), text
    assert code in (exit_codes.NEGATIVE, exit_codes.STORE)
    assert {key for key in cluster.api().get(SECRET)["data"] if not key.endswith("-url")} == set()


def test_no_process_was_refused_by_the_store(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    """None was started or kept on a password that the server did not accept."""
    logs = [path for path in kubelet.folder.glob("*.log") if "valkey" not in path.name]
    assert len(logs) > 10
    assert [path.name for path in logs if "WRONGPASS" in path.read_text(errors="replace")] == []
