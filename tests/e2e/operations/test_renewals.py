"""Certificates and a CA that are replaced while a real kube-scheduler calls the extender: no call fails.

The files change as those of a mounted Secret do, all at once by one symbolic link. The extender closes
connections after ten seconds, so that kube-scheduler makes many handshakes.
"""

import base64
import datetime
import itertools
import pathlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping

import pytest
import urllib3

from app.provisioning import authorities, decisions
from app.serving.tls import certificate_issuer
from tests.support import commands, console_sessions, how_to_pages, polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE = "renewals"
LIFE = 40.0 * polling.PATIENCE
"""Seconds that a certificate is valid: less than the renewals take."""
RENEWALS = 10
EVERY = 6.0 * polling.PATIENCE
PODS = 5
"""Pods that are created after each renewal."""
AGE = 10
"""Seconds after which the extender closes a connection: as few as it may be."""
SECRETS = {"topolog-tls": "server", "topolog-scheduler-tls": "scheduler", "topolog-viewer-tls": "viewer"}
"""Secret -> name of its files."""


class Mount:
    """The folder of the certificates, as the kubelet mounts a Secret."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._files = {path.name: path.read_bytes() for path in folder.iterdir()}
        self._authority = certificate_issuer.load_pair(self._files["ca.crt"], self._files["ca.key"])
        self._versions = 0
        self._swap()
        for name in self._files:
            (folder / name).unlink()
            (folder / name).symlink_to(f"..data/{name}")

    def renew(self) -> None:
        """Replace the certificates of the extender and of kube-scheduler."""
        now, days = datetime.datetime.now(datetime.UTC), LIFE / 86_400
        pairs = {
            "server": certificate_issuer.server_pair(
                self._authority, ["127.0.0.1", installations.SERVICE], now, days
            ),
            "scheduler": certificate_issuer.client_pair(self._authority, "scheduler", now, days),
        }
        for name, pair in pairs.items():
            self._files[f"{name}.crt"] = pair.certificate_pem()
            self._files[f"{name}.key"] = pair.key_pem()
        self._swap()

    def put(self, files: Mapping[str, bytes]) -> None:
        """Replace files by others."""
        self._files |= files
        self._swap()

    def _swap(self) -> None:
        self._versions += 1
        version, link = self._folder / f"..{self._versions}", self._folder / "..data_new"
        version.mkdir()
        for name, content in self._files.items():
            (version / name).write_bytes(content)
        link.symlink_to(version.name)
        link.rename(self._folder / "..data")


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """One extender that closes each connection soon, and a node."""
    with installations.Installation(cluster, SERVER_CONNECTION_AGE=str(AGE)) as installed:
        cluster.add_nodes("n1", labels={"zone": "a"})
        cluster.add_namespace(NAMESPACE)
        yield installed


@pytest.fixture(scope="module")
def mount(topolog: installations.Installation) -> Mount:
    """The files of the extender and of kube-scheduler."""
    return Mount(topolog.tls)


def served(topolog: installations.Installation) -> str:
    """The certificate that the extender presents to a new client, as PEM."""
    context = ssl.create_default_context(cafile=str(topolog.tls / "ca.crt"))
    context.load_cert_chain(topolog.tls / "viewer.crt", topolog.tls / "viewer.key")
    address = "127.0.0.1", topolog.extenders[0].port
    with (
        socket.create_connection(address, timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connected,
    ):
        der = connected.getpeercert(binary_form=True)
    assert der is not None
    return ssl.DER_cert_to_PEM_cert(der)


def test_ten_renewals_fail_no_call(
    cluster: clusters.Cluster, topolog: installations.Installation, mount: Mount
) -> None:
    mount.renew()  # From now on kube-scheduler depends on certificates that expire soon.
    scheduler = topolog.start_scheduler()
    cluster.apply(
        workloads.policy(NAMESPACE, "web", "zone", "web", a=PODS * RENEWALS),
        workloads.deployment(NAMESPACE, "web", 0, policy="web"),
    )

    path = f"/apis/v1/plugins/WorkloadPolicy/policies/{NAMESPACE}/web"
    polling.eventually(lambda: topolog.find(path), "the extender has the policy", within=60)

    def running() -> int:
        return len(workloads.running(cluster, NAMESPACE, "of=web"))

    def run(pods: int) -> None:
        cluster.kubectl("-n", NAMESPACE, "scale", "deployment/web", f"--replicas={pods}")
        polling.eventually(lambda: running() == pods, f"{pods} pods run", within=60, seen=running)

    def presented() -> bool:
        return (topolog.tls / "server.crt").read_text().startswith(served(topolog))

    for number in range(1, RENEWALS + 1):
        mount.renew()
        run(PODS * number)
        polling.eventually(presented, "a new client gets the new certificate")
        time.sleep(EVERY)  # The life of certificates is in real time.
    calls = topolog.extenders[0].calls()
    assert {call["outcome"] for call in calls if call["verb"] == "bind"} == {"bound"}
    assert [call for call in calls if call["outcome"] == "error"] == []
    events = cluster.api().list(f"/api/v1/namespaces/{NAMESPACE}/events", fields="reason=FailedScheduling")
    assert [event["message"] for event in events] == []
    log = scheduler.process.log.read_text(errors="replace")
    assert [line for line in log.splitlines() if "x509" in line or "tls: " in line] == []


# The CA


class Load(threading.Thread):
    """Creates at most ten pods per second until it is ended; they are bound and stay."""

    def __init__(self, api: api_client.Api) -> None:
        super().__init__(name="load", daemon=True)
        self._api = api
        self._enough = threading.Event()
        self.created = 0

    def run(self) -> None:
        """Create pods."""
        labels = {"app": "steady", workloads.POLICY_LABEL: "steady"}
        for number in itertools.count(1):
            made = workloads.pod(NAMESPACE, f"steady-{number}", scheduler="steady", **labels)
            self._api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", made)
            self.created = number
            if self._enough.wait(0.1 * polling.PATIENCE):
                return

    def await_bound(self, cluster: clusters.Cluster, more: int = 10) -> None:
        """Wait until so many pods that do not exist yet are bound, and all before them."""
        until = self.created + more

        def waiting() -> list[str]:
            pods = cluster.pods(NAMESPACE, labels="app=steady")
            found = {workloads.name(pod) for pod in pods if pod["spec"].get("nodeName")}
            return [name for name in (f"steady-{at}" for at in range(1, until + 1)) if name not in found]

        polling.eventually(lambda: not waiting(), "the pods are bound", within=60, every=0.2, seen=waiting)

    def end(self) -> None:
        """Create no more."""
        self._enough.set()
        self.join()


def mounted(cluster: clusters.Cluster) -> dict[str, bytes]:
    """The files of the Secrets."""
    files: dict[str, bytes] = {}
    for secret, name in SECRETS.items():
        found = cluster.api().get(f"/api/v1/namespaces/{installations.HOME}/secrets/{secret}")["data"]
        data = {key: base64.b64decode(value) for key, value in found.items()}
        files |= {f"{name}.crt": data["tls.crt"], f"{name}.key": data["tls.key"], "ca.crt": data["ca.crt"]}
    return files


def refusal(topolog: installations.Installation, files: Mapping[str, bytes], folder: pathlib.Path) -> str:
    """Why the extender refuses a new connection of kube-scheduler with these files; empty if it does not."""
    folder.mkdir(exist_ok=True)
    for name in ("scheduler.crt", "scheduler.key"):
        (folder / name).write_bytes(files[name])
    with urllib3.PoolManager(
        ca_certs=str(topolog.tls / "ca.crt"),
        cert_file=str(folder / "scheduler.crt"),
        key_file=str(folder / "scheduler.key"),
        retries=False,
    ) as client:
        try:
            client.request("GET", f"https://127.0.0.1:{topolog.extenders[0].port}/")
        except urllib3.exceptions.HTTPError as error:
            return str(error)
    return ""


@pytest.fixture
def installed(
    cluster: clusters.Cluster, topolog: installations.Installation, mount: Mount
) -> dict[str, bytes]:
    """The files of Secrets that `topolog bootstrap` made, of the CA that the installation trusts."""
    data = {"tls.crt": topolog.tls / "ca.crt", "tls.key": topolog.tls / "ca.key"}
    secret = {
        "metadata": {"name": authorities.SECRET, "labels": dict(decisions.LABELS)},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(path.read_bytes()).decode() for key, path in data.items()},
    }
    cluster.api().create(f"/api/v1/namespaces/{installations.HOME}/secrets", secret)
    arguments = ("bootstrap", "-n", installations.HOME, "--host", "127.0.0.1")
    done = commands.called(*arguments, TOPOLOG_KUBE_KUBECONFIG=str(cluster.kubeconfig()))
    assert done.returncode == 0, done.stderr
    files = mounted(cluster)
    mount.put(files)
    return files


def test_a_new_ca_fails_no_bind_but_for_the_restart(
    cluster: clusters.Cluster,
    topolog: installations.Installation,
    mount: Mount,
    installed: dict[str, bytes],
    tmp_path: pathlib.Path,
) -> None:
    """The commands of docs/how-to/certificates.md; the mount is the part of the kubelet."""
    blocks = [block for block in how_to_pages.console() if "bootstrap -n topolog-system --ca" in block.text]
    announce, take_over, drop = blocks
    session = console_sessions.Session(tmp_path, TOPOLOG_KUBE_KUBECONFIG=str(cluster.kubeconfig()))

    def step(block: how_to_pages.Block) -> None:
        session.run([block], {})
        mount.put(mounted(cluster))
        load.await_bound(cluster)

    cluster.add_nodes("n2", labels={"zone": "b"}, capacity={"cpu": "64", "memory": "9Gi", "pods": "6000"})
    cluster.apply(workloads.policy(NAMESPACE, "steady", "zone", "steady", b=6000))
    path = f"/apis/v1/plugins/WorkloadPolicy/policies/{NAMESPACE}/steady"
    polling.eventually(lambda: topolog.find(path), "the extender has the policy", within=60)
    scheduler = topolog.start_scheduler("steady")
    began = len(topolog.extenders[0].calls())
    load = Load(cluster.api())
    load.start()
    try:
        step(announce)
        restarting = len(topolog.extenders[0].calls())
        scheduler.process.restart()
        scheduler.await_ready()
        load.await_bound(cluster)
        restarted = len(topolog.extenders[0].calls())
        step(take_over)
        assert not refusal(topolog, installed, tmp_path / "former")
        step(drop)
        polling.eventually(
            lambda: (
                "UNKNOWN_CA" in refusal(topolog, installed, tmp_path / "former").upper().replace(" ", "_")
            ),
            "the former certificate is refused",
            seen=lambda: refusal(topolog, installed, tmp_path / "former"),
        )
        time.sleep(AGE)  # The age of connections is in real time.
        load.await_bound(cluster)
    finally:
        load.end()
    load.await_bound(cluster, 0)
    assert not refusal(topolog, mounted(cluster), tmp_path / "current")
    calls = topolog.extenders[0].calls()
    others = calls[began:restarting] + calls[restarted:]
    assert {call["outcome"] for call in others if call["verb"] == "bind"} == {"bound"}
    assert [call for call in others if call["outcome"] == "error"] == []
    log = scheduler.process.log.read_text(errors="replace")
    assert [line for line in log.splitlines() if "x509" in line or "tls: " in line] == []
