"""Every mistake with certificates causes one sentence with the file and the remedy."""

import dataclasses
import datetime
import pathlib
import shutil
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import oid

from app import settings
from app.serving import errors
from app.serving.tls import certificate_checks as checks
from app.serving.tls import certificate_issuer, keystores, rotation
from tests.support.extender import server_processes

# The commands by which operators made one.
SEED_COMMANDS = """
openssl genrsa -out ca.key 4096
openssl req -new -x509 -days 3650 -key ca.key -out ca.crt -subj "/CN=rl-scheduler-ca"
openssl genrsa -out server.key 4096
openssl req -new -key server.key -out server.csr -subj "/CN=rl-scheduler-extender.default.svc"
openssl x509 -req -days 365 -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt
openssl pkcs12 -export -out server.p12 -inkey server.key -in server.crt -password pass:changeit -name server
openssl pkcs12 -export -out ca.p12 -in ca.crt -nokeys -password pass:changeit -name ca
"""
WITH_SAN = """
echo subjectAltName=DNS:localhost > san.ext
openssl x509 -req -days 365 -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial \\
    -extfile san.ext -out san.crt
openssl pkcs12 -export -out san.p12 -inkey server.key -in san.crt -password pass:changeit -name server
"""


@pytest.fixture
def pem(certificates: pathlib.Path) -> keystores.Source:
    return server_processes.pem_source(certificates, "server")


@pytest.fixture
def stores(certificates: pathlib.Path) -> keystores.Source:
    return keystores.Source(
        certificate=certificates / "server.p12",
        trust=certificates / "ca.p12",
        password="a good one",
        trust_password="a good one",
    )


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    directory = tmp_path_factory.mktemp("seed")
    subprocess.run(["sh", "-e", "-c", SEED_COMMANDS], cwd=directory, check=True, capture_output=True)
    return directory


def seed_source(seed: pathlib.Path, store: str = "server.p12") -> keystores.Source:
    return keystores.Source(seed / store, seed / "ca.p12", password="changeit", trust_password="changeit")


def refusal(source: keystores.Source) -> str:
    with pytest.raises(errors.BadMaterial) as caught:
        keystores.read(source)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_pem_and_pkcs12_give_the_same_material(pem: keystores.Source, stores: keystores.Source) -> None:
    one, other = keystores.read(pem), keystores.read(stores)
    assert (one.chain, one.authorities) == (other.chain, other.authorities)
    assert one.key_pem == other.key_pem
    assert "PRIVATE" not in repr(one)
    assert "a good one" not in repr(stores)


@pytest.mark.scenario("RL-8")
def test_a_missing_store_is_reported_with_its_absolute_path(stores: keystores.Source) -> None:
    nowhere = pathlib.Path("nowhere.p12")
    message = refusal(dataclasses.replace(stores, certificate=nowhere))
    assert f"TLS certificate {nowhere.absolute()} does not exist" in message
    message = refusal(dataclasses.replace(stores, trust=nowhere))
    assert f"TLS trust store {nowhere.absolute()} does not exist" in message


@pytest.mark.scenario("RL-8")
def test_a_wrong_password_names_the_variable(stores: keystores.Source) -> None:
    message = refusal(dataclasses.replace(stores, password="a bad one"))
    assert "server.p12 cannot be opened with the password of TLS_KEYSTORE_PASSWORD" in message
    assert "a bad one" not in message
    message = refusal(dataclasses.replace(stores, trust_password=None))
    assert "ca.p12 cannot be opened without a password, and TLS_TRUSTSTORE_PASSWORD is not set" in message


def test_a_store_without_a_key_is_refused(stores: keystores.Source) -> None:
    message = refusal(dataclasses.replace(stores, certificate=stores.trust))
    assert "contains no private key" in message


def test_a_pem_file_without_a_key_is_refused(pem: keystores.Source) -> None:
    assert "server.crt contains no private key" in refusal(dataclasses.replace(pem, key=None))


def test_a_pem_file_may_contain_certificate_and_key(pem: keystores.Source, tmp_path: pathlib.Path) -> None:
    assert pem.key is not None
    both = tmp_path / "both.pem"
    both.write_bytes(pem.certificate.read_bytes() + pem.key.read_bytes())
    assert keystores.read(dataclasses.replace(pem, certificate=both, key=None)) == keystores.read(pem)


def test_a_key_of_another_certificate_is_refused(pem: keystores.Source, certificates: pathlib.Path) -> None:
    message = refusal(dataclasses.replace(pem, key=certificates / "viewer.key"))
    assert "the private key does not belong to the certificate" in message


@pytest.mark.scenario("RL-7")
def test_the_error_for_a_certificate_without_san_names_kube_scheduler(
    certificates: pathlib.Path,
) -> None:
    server_processes.sign(
        certificates, "old", usage=oid.ExtendedKeyUsageOID.SERVER_AUTH, common_name="localhost"
    )
    source = server_processes.pem_source(certificates, "old")
    message = refusal(source)
    assert "no subject alternative name" in message
    assert "kube-scheduler" in message
    # Clients not written in Go may accept it.
    warnings = keystores.read(source, hosts_required=False).warnings
    assert any("no subject alternative name" in each for each in warnings)


@pytest.mark.parametrize(("start", "end", "message"), [(-2, -1, "expired on"), (1, 2, "not valid before")])
def test_a_certificate_outside_its_validity_is_refused(
    certificates: pathlib.Path, start: int, end: int, message: str
) -> None:
    server_processes.sign(
        certificates,
        "bad",
        dns=("localhost",),
        usage=oid.ExtendedKeyUsageOID.SERVER_AUTH,
        start=datetime.timedelta(days=start),
        end=datetime.timedelta(days=end),
    )
    assert message in refusal(server_processes.pem_source(certificates, "bad"))


def test_a_client_certificate_is_refused_for_the_server(certificates: pathlib.Path) -> None:
    server_processes.sign(certificates, "client", dns=("localhost",))
    assert "lacks serverAuth" in refusal(server_processes.pem_source(certificates, "client"))


def test_a_trusted_certificate_that_is_not_a_ca_is_refused(pem: keystores.Source) -> None:
    assert "not a certificate authority" in refusal(dataclasses.replace(pem, trust=pem.certificate))


def test_an_expired_ca_is_refused_or_causes_a_warning(pem: keystores.Source, tmp_path: pathlib.Path) -> None:
    then = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate_issuer.issue(tmp_path / "old", ["localhost"], now=then, authority_days=30)
    old = tmp_path / "old" / "ca.crt"
    assert "expired on 2020-01-31" in refusal(dataclasses.replace(pem, trust=old))
    both = tmp_path / "both.pem"
    both.write_bytes(old.read_bytes() + pem.trust.read_bytes())
    material = keystores.read(dataclasses.replace(pem, trust=both))
    assert len(material.authorities) == 2
    assert "expired on 2020-01-31" in material.warnings[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "neither PEM nor PKCS12"),
        (b"hello", "neither PEM nor PKCS12"),
        (b"\xfe\xed\xfe\xed" + b"\0" * 50, "Java JKS"),
        (b"\x30\x82\x0a\x00" + b"\0" * 50, "is truncated: 54 bytes of 2564"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be read"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "contains no certificate"),
    ],
    ids=["nothing", "text", "jks", "half", "garbage", "no certificate"],
)
def test_an_invalid_trust_store_is_refused(
    pem: keystores.Source, tmp_path: pathlib.Path, content: bytes, message: str
) -> None:
    path = tmp_path / "trust"
    path.write_bytes(content)
    assert message in refusal(dataclasses.replace(pem, trust=path))


def test_the_well_known_password_causes_a_warning(certificates: pathlib.Path) -> None:
    certificate_issuer.issue(
        certificates, ["localhost"], password="changeit", replace=certificate_issuer.Replace.ALL
    )
    source = keystores.Source(
        certificates / "server.p12", certificates / "ca.p12", password="changeit", trust_password="changeit"
    )
    warnings = keystores.read(source).warnings
    assert len(warnings) == 2
    assert all("well-known password" in each for each in warnings)


@pytest.mark.scenario("RL-8")
def test_the_stores_of_the_seed_load_without_a_san(seed: pathlib.Path) -> None:
    assert "no subject alternative name" in refusal(seed_source(seed))
    material = keystores.read(seed_source(seed), hosts_required=False)
    assert [each.subject.rfc4514_string() for each in material.authorities] == ["CN=rl-scheduler-ca"]
    assert rotation.build(material).cert_store_stats()["x509_ca"] == 1


def test_the_stores_of_the_seed_are_valid_with_a_san(seed: pathlib.Path) -> None:
    subprocess.run(["sh", "-e", "-c", WITH_SAN], cwd=seed, check=True, capture_output=True)
    material = keystores.read(seed_source(seed, "san.p12"))
    assert checks.hosts(material.chain[0]) == ("localhost",)
    rotation.build(material)


def test_old_exports_load_or_the_error_asks_for_a_new_export(seed: pathlib.Path) -> None:
    # OpenSSL 1 encrypted with RC2; whether that opens depends on how cryptography was built.
    command = "openssl pkcs12 -export -legacy -out old.p12 -in ca.crt -nokeys -password pass:changeit"
    subprocess.run(["sh", "-e", "-c", command], cwd=seed, check=True, capture_output=True)
    source = dataclasses.replace(seed_source(seed), trust=seed / "old.p12")
    try:
        message = f"{len(keystores.read(source, hosts_required=False).authorities)} authority"
    except errors.BadMaterial as error:
        message = str(error)
    assert message == "1 authority" or message.endswith("export it again with OpenSSL 3")


def test_the_source_of_the_settings() -> None:
    assert keystores.source_from(settings.Tls()) is None
    named = settings.Tls(keystore_path="server.p12", keystore_password="one", truststore_path="ca.p12")
    source = keystores.source_from(named)
    assert source is not None
    assert (source.certificate, source.password) == (pathlib.Path("server.p12"), "one")
    with pytest.raises(errors.BadMaterial, match="TLS_TRUSTSTORE_PATH"):
        keystores.source_from(settings.Tls(keystore_path="server.p12"))
    with pytest.raises(errors.BadMaterial, match="TLS_KEYSTORE_PATH"):
        keystores.source_from(settings.Tls(ca="ca.crt"))


def test_a_file_of_cas_expires_with_the_last_of_them(
    certificates: pathlib.Path, pem: keystores.Source
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    former = certificate_issuer.new_authority(now - datetime.timedelta(days=9), 10)
    ca = certificates / "ca.crt"
    (usual,) = keystores.read(pem).authorities
    ca.write_bytes(former.certificate_pem() + ca.read_bytes())
    material = keystores.read(pem)
    assert len(material.authorities) == 2
    assert material.expiries()["ca"] == usual.not_valid_after_utc


def test_of_two_authorities_the_first_that_ends_counts(
    certificates: pathlib.Path, pem: keystores.Source
) -> None:
    """They have different names: none has replaced the other."""
    now, key = datetime.datetime.now(datetime.UTC), certificate_issuer.new_key()
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, "another")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=10))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    other = builder.sign(key, certificate_issuer.HASH)
    ca = certificates / "ca.crt"
    (usual,) = keystores.read(pem).authorities
    ca.write_bytes(other.public_bytes(serialization.Encoding.PEM) + ca.read_bytes())
    assert other.not_valid_after_utc < usual.not_valid_after_utc
    assert keystores.read(pem).expiries()["ca"] == other.not_valid_after_utc


def test_an_expired_revocation_list_causes_a_warning(
    certificates: pathlib.Path, pem: keystores.Source
) -> None:
    material = keystores.read(dataclasses.replace(pem, crl=server_processes.revoke(certificates, days=-1)))
    assert "every client is refused" in material.warnings[0]
    (stale,) = material.revocations
    assert material.expiries() == {
        "server": material.chain[0].not_valid_after_utc,
        "ca": material.authorities[0].not_valid_after_utc,
        "crl": stale.next_update_utc,
    }
    (certificates / "empty.crl").write_text("")
    message = refusal(dataclasses.replace(pem, crl=certificates / "empty.crl"))
    assert "no revocation list" in message
