"""``topolog doctor tls``: each flaw of real certificates is found, and nothing else."""

import datetime
import functools
import pathlib
from collections.abc import Callable, Iterator

import pytest
from cryptography import x509
from cryptography.x509 import oid

from app.serving.tls import certificate_issuer, role_names
from app.simulation.apiserver import faults
from tests.support import manifests
from tests.support.doctor import clusters, runs
from tests.support.extender import server_processes

HOST = "topolog-extender.topolog-system.svc"
DAY = datetime.timedelta(days=1)
# Nothing listens at the default address of the extender, or on this port.
AWAY = ("--server", "https://127.0.0.1:9", "--skip", "T06")


@pytest.fixture
def made(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory that `topolog certs` wrote."""
    certificate_issuer.issue(tmp_path / "tls", [HOST])
    return tmp_path / "tls"


def checked(made: pathlib.Path, **environ: str) -> runs.Run:
    return runs.doctor("tls", "--dir", str(made), *AWAY, environ=environ)


def written(
    folder: pathlib.Path,
    name: str,
    *,
    uris: tuple[str, ...] | None = None,
    dns: tuple[str, ...] | None = None,
    usage: x509.ObjectIdentifier | None = None,
    start: datetime.timedelta = -DAY / 24,
    end: datetime.timedelta = 300 * DAY,
) -> None:
    """Replace a certificate and its key; the CA of the directory signs it. None: as it has to be."""
    serves = name == "server"
    usual = oid.ExtendedKeyUsageOID.SERVER_AUTH if serves else oid.ExtendedKeyUsageOID.CLIENT_AUTH
    server_processes.sign(
        folder,
        name,
        uris=(() if serves else (role_names.uri(role_names.SCHEDULER),)) if uris is None else uris,
        dns=((HOST,) if serves else ()) if dns is None else dns,
        usage=usage or usual,
        start=start,
        end=end,
    )
    (folder / f"{name}.key").chmod(0o600)


def test_certificates_of_topolog_certs_are_right(made: pathlib.Path) -> None:
    run = checked(made)
    assert (run.wrong(), run.code) == ({}, 0)
    assert {one["id"] for one in run.checks} == {"T01", "T02", "T03", "T05"}
    for key in made.glob("*.key"):
        for line in key.read_text().splitlines()[1:-1]:
            assert line not in run.text


server = functools.partial(functools.partial, written, name="server")
"""Replaces the extender's certificate by one with these fields."""
client = functools.partial(functools.partial, written, name="scheduler")


def key_of_another(name: str) -> Callable[[pathlib.Path], None]:
    def change(folder: pathlib.Path) -> None:
        (folder / f"{name}.key").write_bytes((folder / "viewer.key").read_bytes())

    return change


def other_ca(folder: pathlib.Path) -> None:
    """A CA of the same name with another key, which has signed none of the certificates."""
    other = certificate_issuer.issue(folder / "other", [HOST]).files["ca.crt"]
    (folder / "ca.crt").write_bytes(other.read_bytes())


def two_cas(folder: pathlib.Path) -> None:
    """The CAs before and after a change: both sides trust both."""
    other = certificate_issuer.issue(folder / "other", [HOST]).files["ca.crt"]
    (folder / "ca.crt").write_bytes(other.read_bytes() + (folder / "ca.crt").read_bytes())


def with_another_ca(days: int, *, signing: bool = False) -> Callable[[pathlib.Path], None]:
    """A CA beside the usual one, which ends so many days from now.

    ``signing``: it has signed kube-scheduler's certificate.
    """

    def change(folder: pathlib.Path) -> None:
        now = datetime.datetime.now(datetime.UTC)
        other = certificate_issuer.new_authority(now - 100 * DAY, 100 + days)
        if signing:
            client = certificate_issuer.client_pair(other, role_names.SCHEDULER, now, 300)
            (folder / "scheduler.crt").write_bytes(client.certificate_pem())
            (folder / "scheduler.key").write_bytes(client.key_pem())
        (folder / "ca.crt").write_bytes((folder / "ca.crt").read_bytes() + other.certificate_pem())

    return change


def readable(folder: pathlib.Path) -> None:
    (folder / "scheduler.key").chmod(0o644)


def garbage(name: str) -> Callable[[pathlib.Path], None]:
    def change(folder: pathlib.Path) -> None:
        (folder / name).write_text("-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n")

    return change


def removed(name: str) -> Callable[[pathlib.Path], None]:
    def change(folder: pathlib.Path) -> None:
        (folder / name).unlink()

    return change


UNSEEN = {"T01": "unsure", "T02": "unsure", "T03": "unsure", "T05": "unsure"}
BROKEN = {"T02": "problem", "T03": "unsure"}
FLAWS: dict[str, tuple[Callable[[pathlib.Path], None], dict[str, str]]] = {
    "ended": (server(start=-9 * DAY, end=-DAY), {"T01": "problem"}),
    "ends soon": (server(end=13 * DAY), {"T01": "warning"}),
    "ends later": (server(end=15 * DAY), {}),
    "begins tomorrow": (server(start=DAY), {"T01": "problem"}),
    "a client's, ended": (client(start=-9 * DAY, end=-DAY), {"T01": "problem"}),
    "no names": (server(dns=()), {"T02": "problem"}),
    "for clients only": (server(usage=oid.ExtendedKeyUsageOID.CLIENT_AUTH), {"T02": "problem"}),
    "another key": (key_of_another("server"), {"T02": "problem"}),
    "a client's, another key": (key_of_another("scheduler"), {"T02": "problem"}),
    "for servers only": (client(usage=oid.ExtendedKeyUsageOID.SERVER_AUTH), {"T02": "problem"}),
    "of another role": (client(uris=(role_names.uri(role_names.OPERATOR),)), {"T02": "problem"}),
    "no role": (client(uris=(), dns=("kube-scheduler.example",)), {"T02": "problem"}),
    "another CA of that name": (other_ca, {"T03": "problem"}),
    "two CAs": (two_cas, {}),
    "a former CA that ends soon": (with_another_ca(13), {}),
    "a former CA that has ended": (with_another_ca(-1), {}),
    "a readable key": (readable, {"T05": "problem"}),
    "a broken certificate": (garbage("server.crt"), BROKEN),
    "a broken CA": (garbage("ca.crt"), BROKEN),
    "a broken key": (garbage("scheduler.key"), BROKEN),
    "no certificate": (removed("scheduler.crt"), UNSEEN),
    "no key": (removed("server.key"), UNSEEN),
}


def test_a_fix_names_the_files_and_the_names_of_the_certificate(made: pathlib.Path) -> None:
    server(end=13 * DAY)(made)
    readable(made)
    run = checked(made)
    (renewed,) = [one["fix"] for one in run.of("T01") if one["verdict"] == "warning"]
    assert renewed == f"topolog certs {made} --host {HOST} --renew, or let its issuer sign it again"
    (hidden,) = [one["fix"] for one in run.of("T05") if one["verdict"] == "problem"]
    assert hidden.startswith(f"chmod 0640 {made}/")


@pytest.mark.parametrize("name", FLAWS)
def test_each_flaw_is_found_and_nothing_else(made: pathlib.Path, name: str) -> None:
    flaw, expected = FLAWS[name]
    flaw(made)
    assert checked(made).wrong() == expected


def test_a_ca_that_ends_soon_and_is_in_use_is_found(made: pathlib.Path) -> None:
    with_another_ca(13, signing=True)(made)
    cas = [one for one in checked(made).of("T01") if one["seen"].startswith("the CA ends at ")]
    assert {one["subject"].partition(",")[0] for one in cas} == {"extender", "kube-scheduler"}
    assert {one["verdict"] for one in cas} == {"warning"}


def test_a_name_of_the_settings_has_a_role(made: pathlib.Path) -> None:
    written(made, "scheduler", uris=(), dns=("kube-scheduler.example",))
    assert checked(made, TOPOLOG_IDENTITIES_SCHEDULER="kube-scheduler.example").wrong() == {}


def settings_of(made: pathlib.Path, **more: str) -> dict[str, str]:
    files = {"CERT": "server.crt", "KEY": "server.key", "CA": "ca.crt"}
    return {**{f"TOPOLOG_TLS_{name}": str(made / file) for name, file in files.items()}, **more}


def test_the_files_of_the_settings_are_checked(made: pathlib.Path) -> None:
    run = runs.doctor("tls", *AWAY, environ=settings_of(made))
    # The client's certificate is on another machine.
    assert run.wrong() == UNSEEN
    assert not [one for one in run.checks if one["verdict"] == "unsure" and "extender," in one["subject"]]
    for days, verdict in ((-1, "problem"), (13, "warning")):
        crl = server_processes.revoke(made, days=days)
        run = runs.doctor("tls", *AWAY, environ=settings_of(made, TOPOLOG_TLS_CRL=str(crl)))
        assert {one["verdict"] for one in run.of("T01") if "revocation list" in one["seen"]} == {verdict}


def test_a_well_known_password_is_found(tmp_path: pathlib.Path) -> None:
    certificate_issuer.issue(tmp_path / "tls", [HOST], password="changeit")
    store, trust = tmp_path / "tls" / "server.p12", tmp_path / "tls" / "ca.p12"
    given = {
        "TLS_KEYSTORE_PATH": str(store),
        "TLS_KEYSTORE_PASSWORD": "changeit",
        "TLS_TRUSTSTORE_PATH": str(trust),
        "TLS_TRUSTSTORE_PASSWORD": "changeit",
    }
    run = runs.doctor("tls", *AWAY, environ=given)
    assert [one["verdict"] for one in run.of("T05") if "extender" in one["subject"]] == ["warning"]
    assert "changeit" not in run.text
    run = runs.doctor("tls", *AWAY, environ={**given, "TLS_KEYSTORE_PASSWORD": "wrong-password"})
    assert run.wrong()["T02"] == "problem"
    assert "wrong-password" not in run.text


# -- the Secrets of a cluster -------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: pathlib.Path, made: pathlib.Path) -> Iterator[clusters.Cluster]:
    with clusters.running(tmp_path) as found:
        for secret, name in (("topolog-tls", "server"), ("topolog-scheduler-tls", "scheduler")):
            pems = ((made / file).read_bytes() for file in (f"{name}.crt", f"{name}.key", "ca.crt"))
            found.add_certificate(*pems, name=secret)
        yield found


def rfc3339(at: datetime.datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def start(
    cluster: clusters.Cluster, at: datetime.datetime, *, pod_at: datetime.datetime | None = None
) -> None:
    """Start an extender with kube-scheduler beside it; ``pod_at``: when the kubelet accepted the pod."""
    volumes = [{"name": "tls", "secret": {"secretName": "topolog-scheduler-tls"}}]
    mount = {"name": "tls", "mountPath": "/etc/topolog/scheduler-tls"}
    containers = [
        {"name": "extender", "image": "i"},
        {"name": "kube-scheduler", "image": "i", "volumeMounts": [mount]},
    ]
    cluster.add_own_pod("topolog-extender-a", volumes=volumes, containers=containers)
    key = (clusters.HOME, "topolog-extender-a")
    starts = {"extender": at - 9 * DAY, "kube-scheduler": at}
    status = {
        "phase": "Running",
        "startTime": rfc3339(pod_at or at),
        "containerStatuses": [
            {"name": name, "state": {"running": {"startedAt": rfc3339(when)}}}
            for name, when in starts.items()
        ],
    }
    cluster.api.objects.change("pods", key, lambda pod: {**pod, "status": status})


def created(cluster: clusters.Cluster, at: datetime.datetime) -> None:
    """The Secret of kube-scheduler was created then, and has been updated with the CA of now."""
    key = (clusters.HOME, "topolog-scheduler-tls")
    cluster.api.objects.change(
        "secrets",
        key,
        lambda one: {**one, "metadata": {**one["metadata"], "creationTimestamp": rfc3339(at)}},
    )


RIGHT = {"T01", "T02", "T03", "T04", "T05"}
"""Checks of Secrets that sound ones pass."""


def test_the_secrets_of_a_cluster_are_checked(cluster: clusters.Cluster, made: pathlib.Path) -> None:
    start(cluster, datetime.datetime.now(datetime.UTC))
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == RIGHT
    for line in (made / "scheduler.key").read_text().splitlines()[1:-1]:
        assert line not in run.text


@pytest.mark.parametrize(
    ("file", "days", "wrong"),
    [("server", 365, {}), ("server", 5, {"T01": "warning"}), ("viewer", 365, {"T02": "problem"})],
)
def test_the_certificate_of_the_store_is_checked_where_there_is_one(
    cluster: clusters.Cluster, tmp_path: pathlib.Path, file: str, days: int, wrong: dict[str, str]
) -> None:
    certificate_issuer.issue(tmp_path / "store", ["topolog-valkey"], days=days)
    files = (f"{file}.crt", f"{file}.key", "ca.crt")
    pems = ((tmp_path / "store" / each).read_bytes() for each in files)
    cluster.add_certificate(*pems, name="topolog-valkey-tls")
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert run.wrong() == wrong
    assert "Secret topolog-system/topolog-valkey-tls" in run.text


def test_a_certificate_without_the_name_of_the_view_is_found(
    cluster: clusters.Cluster, tmp_path: pathlib.Path
) -> None:
    cluster.add("services", manifests.one("Service", "topolog-view", "components/view"))
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert run.wrong() == {"T02": "warning"}
    assert f"lacks the name topolog-view.{clusters.HOME}.svc" in run.text
    names = [f"topolog-{name}.{clusters.HOME}.svc" for name in ("extender", "view")]
    certificate_issuer.issue(tmp_path / "both", names)
    for secret, name in (("topolog-tls", "server"), ("topolog-scheduler-tls", "scheduler")):
        files = (f"{name}.crt", f"{name}.key", "ca.crt")
        pems = ((tmp_path / "both" / file).read_bytes() for file in files)
        cluster.api.objects.remove("secrets", (clusters.HOME, secret))
        cluster.add_certificate(*pems, name=secret)
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == {}


def test_a_scheduler_that_was_started_before_its_ca_is_found(cluster: clusters.Cluster) -> None:
    start(cluster, datetime.datetime.now(datetime.UTC) - 9 * DAY)
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == {"T04": "warning"}


@pytest.mark.parametrize(("minutes", "wrong"), [(-3, {"T04": "warning"}), (1, {"T04": "warning"}), (3, {})])
def test_a_scheduler_has_a_ca_when_the_kubelet_has_updated_its_files(
    cluster: clusters.Cluster, minutes: int, wrong: dict[str, str]
) -> None:
    """A CA begins five minutes before it is created, which is now; the Secret is older."""
    now = datetime.datetime.now(datetime.UTC)
    created(cluster, now - 30 * DAY)
    start(cluster, now + datetime.timedelta(minutes=minutes))
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == wrong


def test_a_scheduler_that_was_started_again_in_its_pod_is_right(cluster: clusters.Cluster) -> None:
    now = datetime.datetime.now(datetime.UTC)
    created(cluster, now - 30 * DAY)
    start(cluster, now + datetime.timedelta(minutes=3), pod_at=now - 20 * DAY)
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == {}


@pytest.mark.parametrize(("seconds", "wrong"), [(2, {}), (-180, {"T04": "warning"})])
def test_a_scheduler_of_a_new_installation_has_the_ca_of_its_secret(
    cluster: clusters.Cluster, seconds: int, wrong: dict[str, str]
) -> None:
    """Secret and CA are created together, and the container starts when the Secret exists."""
    start(cluster, datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds))
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == wrong


def test_without_the_right_to_a_secret_the_role_that_grants_it_is_named(cluster: clusters.Cluster) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL, lambda request: "secrets" in request.path.split("/"), status=403, times=1000
    )
    found = runs.doctor("tls", *AWAY, environ=cluster.environ).of("T02")
    assert {one["verdict"] for one in found} == {"unsure"}
    assert all("the Role of that name in Topolog's namespace" in one["fix"] for one in found)


def test_the_fix_of_a_secret_names_it(cluster: clusters.Cluster) -> None:
    cluster.api.objects.change(
        "secrets", (clusters.HOME, "topolog-tls"), lambda one: {**one, "data": {"tls.crt": "%%%"}}
    )
    (found,) = [one["fix"] for one in runs.doctor("tls", *AWAY, environ=cluster.environ).of("T02")][:1]
    assert found.startswith(f"kubectl -n {clusters.HOME} delete secret topolog-tls; ")


def test_a_secret_that_is_missing_or_incomplete_is_found(cluster: clusters.Cluster) -> None:
    cluster.api.objects.change(
        "secrets", (clusters.HOME, "topolog-tls"), lambda one: {**one, "data": {"tls.crt": "%%%"}}
    )
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == BROKEN
    cluster.api.objects.remove("secrets", (clusters.HOME, "topolog-tls"))
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert run.wrong() == UNSEEN
    assert "topolog certs" in run.of("T02")[0]["fix"] or "deploy" in run.of("T02")[0]["fix"]


def test_no_source_is_unsure() -> None:
    run = runs.doctor("tls", "--server", "https://127.0.0.1:9")
    assert set(run.wrong().values()) == {"unsure"}
    assert "--dir" in run.text
