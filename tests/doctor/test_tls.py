"""``topolog doctor tls``: each flaw of real certificates is found, and nothing else."""

import datetime
import functools
import pathlib
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.x509 import oid

from app.serving.tls import certificate_issuer, role_names
from tests.support.doctor import runs
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


def test_no_source_is_unsure() -> None:
    run = runs.doctor("tls", "--server", "https://127.0.0.1:9")
    assert set(run.wrong().values()) == {"unsure"}
    assert "--dir" in run.text
