"""Certificates that live for seconds, renewed while a real kube-scheduler calls the extender: no call fails.

The files change as those of a mounted Secret do, all at once by one symbolic link. The extender closes
connections after ten seconds, so that kube-scheduler makes many handshakes.
"""

import datetime
import pathlib
import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from app.serving.tls import issuing
from tests.support import polling
from tests.support.e2e import clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAMESPACE = "renewals"
LIFE = 40.0
"""Seconds that a certificate is valid: less than the renewals take."""
RENEWALS = 10
EVERY = 6.0
PODS = 5
"""Pods that are created after each renewal."""


class Mount:
    """The folder of the certificates, as the kubelet mounts a Secret."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._files = {path.name: path.read_bytes() for path in folder.iterdir()}
        self._authority = issuing.load_pair(self._files["ca.crt"], self._files["ca.key"])
        self._versions = 0
        self._swap()
        for name in self._files:
            (folder / name).unlink()
            (folder / name).symlink_to(f"..data/{name}")

    def renew(self) -> None:
        """Replace the certificates of the extender and of kube-scheduler."""
        now, days = datetime.datetime.now(datetime.UTC), LIFE / 86_400
        pairs = {
            "server": issuing.server_pair(self._authority, ["127.0.0.1", installations.SERVICE], now, days),
            "scheduler": issuing.client_pair(self._authority, "scheduler", now, days),
        }
        for name, pair in pairs.items():
            self._files[f"{name}.crt"] = pair.certificate_pem()
            self._files[f"{name}.key"] = pair.key_pem()
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
    with installations.Installation(cluster, SERVER_CONNECTION_AGE="10") as installed:
        cluster.add_nodes("n1", labels={"zone": "a"})
        cluster.add_namespace(NAMESPACE)
        yield installed


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


def test_ten_renewals_fail_no_call(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    mount = Mount(topolog.tls)
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
