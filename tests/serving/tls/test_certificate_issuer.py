"""The files of `topolog certs`, also verified by openssl if it is installed."""

import contextlib
import datetime
import errno
import itertools
import os
import pathlib
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509 import oid

from app.serving import errors
from app.serving.tls import certificate_checks, certificate_issuer, keystores, role_names

openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


NAMES = ("ca", "server", *role_names.ROLES)
PAIRS = {f"{name}.{end}" for name in NAMES for end in ("crt", "key")}


def load(directory: pathlib.Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((directory / f"{name}.crt").read_bytes())


def test_files_are_readable_only_by_their_owner(tmp_path: pathlib.Path) -> None:
    issued = certificate_issuer.issue(tmp_path / "new", ["localhost"], password="secret")
    assert set(issued.files) == {*PAIRS, "server.p12", "ca.p12"}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in issued.files.values()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@openssl
@pytest.mark.scenario("RL-7")
@pytest.mark.parametrize(("name", "purpose"), [("server", "sslserver"), ("scheduler", "sslclient")])
def test_openssl_verifies_a_certificate_only_for_its_purpose(
    tmp_path: pathlib.Path, name: str, purpose: str
) -> None:
    certificate_issuer.issue(tmp_path, ["localhost"])

    def verified(purpose: str) -> bool:
        command = [
            "openssl",
            "verify",
            "-x509_strict",
            "-purpose",
            purpose,
            "-CAfile",
            "ca.crt",
            f"{name}.crt",
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0

    assert verified(purpose)
    assert not verified("sslclient" if purpose == "sslserver" else "sslserver")


def test_names_and_roles_are_in_the_san(tmp_path: pathlib.Path) -> None:
    certificate_issuer.issue(tmp_path, ["Topolog.kube-system.svc", "10.0.0.7", "::1"])
    assert certificate_checks.hosts(load(tmp_path, "server")) == (
        "topolog.kube-system.svc",
        "10.0.0.7",
        "::1",
    )
    for role in role_names.ROLES:
        names = certificate_checks.alternative_names(load(tmp_path, role))
        assert names is not None
        assert names.get_values_for_type(x509.UniformResourceIdentifier) == [role_names.uri(role)]
        assert certificate_checks.extended_usages(load(tmp_path, role)) == {
            oid.ExtendedKeyUsageOID.CLIENT_AUTH
        }


def test_the_ca_is_kept_and_all_other_certificates_renewed(tmp_path: pathlib.Path) -> None:
    first = certificate_issuer.issue(tmp_path, ["localhost"])
    before = {name: load(tmp_path, name).serial_number for name in ("ca", "server", "scheduler")}
    second = certificate_issuer.issue(tmp_path, ["localhost"], replace=certificate_issuer.Replace.SIGNED)
    after = {name: load(tmp_path, name).serial_number for name in ("ca", "server", "scheduler")}
    assert (first.authority_kept, second.authority_kept) == (False, True)
    assert before["ca"] == after["ca"]
    assert before["server"] != after["server"]
    assert before["scheduler"] != after["scheduler"]


def test_a_renewal_keeps_the_former_names_and_adds_the_given_ones(tmp_path: pathlib.Path) -> None:
    hosts = ["Topolog.kube-system.svc", "by-hand.example", "10.0.0.7", "::1"]
    assert certificate_issuer.with_former_names(tmp_path, hosts) == hosts
    certificate_issuer.issue(tmp_path, hosts)
    former = [each.lower() for each in hosts]
    assert certificate_issuer.with_former_names(tmp_path, []) == former
    given = ["new.example", "TOPOLOG.kube-system.svc", "10.0.0.7"]
    assert certificate_issuer.with_former_names(tmp_path, given) == [*given, "by-hand.example", "::1"]


def test_names_that_cannot_be_read_are_not_dropped(tmp_path: pathlib.Path) -> None:
    (tmp_path / "server.crt").write_text("not a certificate")
    with pytest.raises(errors.BadMaterial, match=r"the names in .*server\.crt cannot be read"):
        certificate_issuer.with_former_names(tmp_path, ["localhost"])


def test_existing_files_are_replaced_only_on_request(tmp_path: pathlib.Path) -> None:
    certificate_issuer.issue(tmp_path, ["localhost"], password="secret")
    before = contents(tmp_path)
    with pytest.raises(errors.WouldReplace, match=r"would replace .*server\.key.*--renew.*--force") as found:
        certificate_issuer.issue(tmp_path, ["localhost"], password="secret")
    assert all(name in str(found.value) for name in before if not name.startswith("ca.") or name == "ca.p12")
    assert contents(tmp_path) == before


def test_a_ca_whose_key_was_moved_is_replaced_only_on_request(tmp_path: pathlib.Path) -> None:
    made = tmp_path / "certs"
    certificate_issuer.issue(made, ["localhost"])
    safe = (made / "ca.key").rename(tmp_path / "safe.key")
    before = contents(made)
    for replace in (certificate_issuer.Replace.NOTHING, certificate_issuer.Replace.SIGNED):
        with pytest.raises(errors.BadMaterial, match=r"ca.crt without its key.*--ca-key"):
            certificate_issuer.issue(made, ["localhost"], replace=replace)
    assert contents(made) == before
    renewed = certificate_issuer.issue(
        made, ["localhost"], replace=certificate_issuer.Replace.SIGNED, authority_key=safe
    )
    after = contents(made)
    assert renewed.authority_kept
    assert after["ca.crt"] == before["ca.crt"]
    assert "ca.key" not in after
    assert after["server.key"] != before["server.key"]
    assert set(renewed.replaced) == set(before) - {"ca.crt"}


def test_the_key_of_another_ca_is_refused(tmp_path: pathlib.Path) -> None:
    certificate_issuer.issue(tmp_path / "one", ["localhost"])
    certificate_issuer.issue(tmp_path / "other", ["localhost"])
    before = contents(tmp_path / "one")
    with pytest.raises(errors.BadMaterial, match="does not belong to"):
        certificate_issuer.issue(
            tmp_path / "one",
            ["localhost"],
            replace=certificate_issuer.Replace.SIGNED,
            authority_key=tmp_path / "other" / "ca.key",
        )
    assert contents(tmp_path / "one") == before


@pytest.mark.parametrize("name", ["server.key", "server.crt", "viewer.key", "server.p12"])
def test_a_renewal_replaces_only_files_that_the_ca_has_signed(tmp_path: pathlib.Path, name: str) -> None:
    made, other = tmp_path / "made", tmp_path / "other"
    for folder in (made, other):
        certificate_issuer.issue(folder, ["localhost"], password="secret")
    (made / name).write_bytes((other / name).read_bytes())
    before = contents(made)
    with pytest.raises(errors.WouldReplace, match=rf"would replace .*{name}.*has not signed"):
        certificate_issuer.issue(
            made, ["localhost"], password="secret", replace=certificate_issuer.Replace.SIGNED
        )
    assert contents(made) == before
    forced = certificate_issuer.issue(
        made, ["localhost"], password="secret", replace=certificate_issuer.Replace.ALL
    )
    assert set(forced.replaced) == set(before)
    assert not forced.authority_kept


@pytest.mark.parametrize("replace", certificate_issuer.Replace)
@pytest.mark.parametrize("killed", [False, True])
def test_certificates_that_were_written_in_part_are_renewed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, replace: certificate_issuer.Replace, killed: bool
) -> None:
    issue = certificate_issuer.issue
    monkeypatch.setattr(os, "fsync", lambda number: None)
    for last in itertools.count():
        folder = tmp_path / str(last)
        folder.mkdir()
        if replace is not certificate_issuer.Replace.NOTHING:
            issue(folder, ["localhost"])
        before = contents(folder)
        with contextlib.suppress(OSError), pytest.MonkeyPatch.context() as patch:
            steps = itertools.count()
            for name in ("fsync", "replace"):
                patch.setattr(os, name, until_full(getattr(os, name), steps, last))
            if killed:
                patch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
            issue(folder, ["localhost"], replace=replace)
            break
        if not killed and not (folder / ".written").exists():
            assert contents(folder) == before
        issue(folder, ["localhost"], replace=certificate_issuer.Replace.SIGNED)
        keystores.read(keystores.Source(folder / "server.crt", folder / "ca.crt", folder / "server.key"))
        for role in role_names.ROLES:
            certificate_issuer.load_pair(*((folder / f"{role}.{end}").read_bytes() for end in ("crt", "key")))
        assert contents(folder).keys() == PAIRS
    assert last >= 20


def until_full(call: Callable[..., None], steps: Iterator[int], last: int) -> Callable[..., None]:
    """A call of the system that fails from one step on, as on a disk that is full then."""

    def called(*arguments: object) -> None:
        if next(steps) >= last:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        call(*arguments)

    return called


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_expired_ca_is_replaced_only_on_request(tmp_path: pathlib.Path) -> None:
    then = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate_issuer.issue(tmp_path, ["localhost"], now=then, authority_days=30)
    with pytest.raises(errors.BadMaterial, match=r"expired on 2020-01-31.*--force"):
        certificate_issuer.issue(tmp_path, ["localhost"], replace=certificate_issuer.Replace.SIGNED)
    issued = certificate_issuer.issue(tmp_path, ["localhost"], replace=certificate_issuer.Replace.ALL)
    assert not issued.authority_kept
    assert issued.expires["ca"] > datetime.datetime.now(datetime.UTC)


def own_authority(folder: pathlib.Path, *, ca: bool) -> None:
    """A self-signed certificate without the extensions that certificate_issuer.new_authority adds."""
    pair = certificate_issuer.new_authority(datetime.datetime.now(datetime.UTC), 10)
    name = pair.certificate.subject
    builder = (
        x509.CertificateBuilder(name, name, pair.key.public_key(), pair.certificate.serial_number)
        .not_valid_before(pair.certificate.not_valid_before_utc)
        .not_valid_after(pair.certificate.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    made = certificate_issuer.Pair(builder.sign(pair.key, hashes.SHA256()), pair.key)
    (folder / "ca.crt").write_bytes(made.certificate_pem())
    (folder / "ca.key").write_bytes(made.key_pem())


def test_a_ca_without_a_key_identifier_signs_certificates(tmp_path: pathlib.Path) -> None:
    own_authority(tmp_path, ca=True)
    issued = certificate_issuer.issue(tmp_path, ["localhost"])
    assert issued.authority_kept
    load(tmp_path, "server").verify_directly_issued_by(load(tmp_path, "ca"))
    if shutil.which("openssl"):
        command = ["openssl", "verify", "-CAfile"]
        subprocess.run([*command, tmp_path / "ca.crt", tmp_path / "server.crt"], check=True)


def test_a_certificate_that_is_no_ca_signs_nothing(tmp_path: pathlib.Path) -> None:
    own_authority(tmp_path, ca=False)
    with pytest.raises(errors.BadMaterial, match="not a certificate authority"):
        certificate_issuer.issue(tmp_path, ["localhost"])
    assert {path.name for path in tmp_path.iterdir()} == {"ca.crt", "ca.key"}


def test_certificates_do_not_outlive_the_ca(tmp_path: pathlib.Path) -> None:
    issued = certificate_issuer.issue(tmp_path, ["localhost"], days=400, authority_days=100)
    assert issued.expires["server"] == issued.expires["ca"]


def test_an_unreadable_ca_is_not_overwritten(tmp_path: pathlib.Path) -> None:
    (tmp_path / "ca.crt").write_text("not a certificate")
    (tmp_path / "ca.key").write_text("not a key")
    with pytest.raises(errors.BadMaterial, match="cannot be reused"):
        certificate_issuer.issue(tmp_path, ["localhost"])
    assert (tmp_path / "ca.crt").read_text() == "not a certificate"


@pytest.mark.parametrize("host", ["https://topolog", "topolog:8443", "a b", "", "-a", "a..b", "x" * 64])
def test_an_invalid_host_is_refused(tmp_path: pathlib.Path, host: str) -> None:
    with pytest.raises(errors.BadHost, match="neither a DNS name nor an address"):
        certificate_issuer.issue(tmp_path, [host])


def test_a_server_needs_a_host(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.BadHost, match="at least one host"):
        certificate_issuer.issue(tmp_path, [])


def test_the_server_loads_the_issued_stores(tmp_path: pathlib.Path) -> None:
    certificate_issuer.issue(tmp_path, ["localhost"], password="secret")
    source = keystores.Source(
        tmp_path / "server.p12", tmp_path / "ca.p12", password="secret", trust_password="secret"
    )
    material = keystores.read(source)
    assert material.chain == (load(tmp_path, "server"),)
    assert material.authorities == (load(tmp_path, "ca"),)
    assert material.warnings == ()


@openssl
def test_openssl_opens_the_issued_stores(tmp_path: pathlib.Path) -> None:
    certificate_issuer.issue(tmp_path, ["localhost"], password="secret")
    for store in ("server.p12", "ca.p12"):
        command = ["openssl", "pkcs12", "-in", store, "-nokeys", "-passin", "pass:secret"]
        shown = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
        assert b"BEGIN CERTIFICATE" in shown
