"""Issues the certificates of a cluster: a CA, the server's, and one per role.

They meet the requirements of Go clients such as kube-scheduler: the server's names are subject alternative
names, and each certificate has an extended key usage. A client's role is a URI in its SAN (`role_names.uri`).
Existing files are replaced only on request: `Replace.SIGNED` renews the certificates that the CA has signed,
so that running servers and clients keep trusting each other.
"""

import contextlib
import dataclasses
import datetime
import enum
import ipaddress
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import oid

from app.serving import errors
from app.serving.tls import certificate_checks, file_sets, role_names

HOST = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*")
HASH = hashes.SHA256()
SKEW = datetime.timedelta(minutes=5)
"""Certificates are valid from slightly before their creation, to tolerate clock skew."""


@dataclasses.dataclass(frozen=True, slots=True)
class Issued:
    """The written files by name (`server.crt`), and the expiry of each certificate."""

    directory: pathlib.Path
    hosts: tuple[str, ...]
    files: Mapping[str, pathlib.Path]
    expires: Mapping[str, datetime.datetime]
    authority_kept: bool
    replaced: tuple[str, ...]
    """Names of the files that existed before."""


_FORCE_HINT = "--force creates a new CA, which clients and servers do not trust yet"


class Replace(enum.Enum):
    """Which existing files may be replaced."""

    NOTHING = enum.auto()
    SIGNED = enum.auto()
    """Certificates that the CA has signed, and their keys."""
    ALL = enum.auto()
    """Everything, including the CA."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certificate_pem(self) -> bytes:
        """Return the certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """Return the key in PEM (PKCS8), unencrypted: the file's mode protects it."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def issue(
    directory: pathlib.Path,
    hosts: Sequence[str],
    *,
    days: int = 365,
    authority_days: int = 3650,
    password: str | None = None,
    now: datetime.datetime | None = None,
    replace: Replace = Replace.NOTHING,
    authority_key: pathlib.Path | None = None,
) -> Issued:
    """Write ca, server, scheduler, viewer and operator (.crt and .key) into a directory, with mode 0600.

    `hosts` are the DNS names and addresses of the server. With a password, server.p12 and ca.p12 are also
    written: the stores of TLS_KEYSTORE_PATH and TLS_TRUSTSTORE_PATH. `authority_key` is the key of the
    directory's ca.crt if it is stored elsewhere. Completes what an interrupted call has left. Raises BadHost,
    BadMaterial and WouldReplace before anything else is written. After an OSError no file has changed, or the
    next call completes the set.
    """
    alternative_names(hosts)
    now = now or datetime.datetime.now(datetime.UTC)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    file_sets.complete(directory)
    starting_over = replace is Replace.ALL and authority_key is None
    kept = None if starting_over else _kept_authority(directory, authority_key, now)
    authority = kept or new_authority(now, authority_days)
    pairs = {"ca": authority, "server": server_pair(authority, hosts, now, days)}
    pairs |= {role: client_pair(authority, role, now, days) for role in role_names.ROLES}
    contents: dict[str, bytes] = {}
    for name, pair in pairs.items():
        contents |= {f"{name}.key": pair.key_pem(), f"{name}.crt": pair.certificate_pem()}
    if kept is not None:
        del contents["ca.key"], contents["ca.crt"]
    if password is not None:
        contents |= _stores(pairs["server"], authority, password)
    replaced = tuple(sorted(name for name in contents if os.path.lexists(directory / name)))
    own = _signed_by(authority, directory, password) if replace is Replace.SIGNED else frozenset()
    if foreign := [] if replace is Replace.ALL else [name for name in replaced if name not in own]:
        raise errors.WouldReplace(_refusal(directory, foreign, renewing=replace is Replace.SIGNED))
    file_sets.replace(directory, contents)
    return Issued(
        directory=directory,
        hosts=tuple(hosts),
        files={name: directory / name for name in (*(["ca.crt"] if kept else []), *contents)},
        expires={name: pair.certificate.not_valid_after_utc for name, pair in pairs.items()},
        authority_kept=kept is not None,
        replaced=replaced,
    )


def _refusal(directory: pathlib.Path, names: Sequence[str], *, renewing: bool) -> str:
    what = f"in {directory.absolute()}, this would replace {', '.join(names)}"
    if renewing:
        return f"{what}, which ca.crt has not signed: move or delete them, or replace all files with --force"
    return (
        f"{what}: --renew replaces the certificates that ca.crt has signed and keeps the CA; --force replaces"
        " all files and creates a new CA, which clients and servers do not trust yet"
    )


def _signed_by(authority: Pair, directory: pathlib.Path, password: str | None) -> frozenset[str]:
    """The files of certificates that the CA has signed, and of their keys."""
    found: set[str] = set()
    for name in ("server", *role_names.ROLES):
        with contextlib.suppress(OSError, ValueError, TypeError, InvalidSignature, errors.BadMaterial):
            certificate = x509.load_pem_x509_certificate((directory / f"{name}.crt").read_bytes())
            certificate.verify_directly_issued_by(authority.certificate)
            found.add(f"{name}.crt")
            key = load_key((directory / f"{name}.key").read_bytes()).public_key()
            if certificate_checks.public_bytes(key) == certificate_checks.public_bytes(
                certificate.public_key()
            ):
                found.add(f"{name}.key")
    if password is not None:
        with contextlib.suppress(OSError, ValueError, TypeError, InvalidSignature):
            _, stored, _ = pkcs12.load_key_and_certificates(
                (directory / "server.p12").read_bytes(), password.encode()
            )
            if stored is not None:
                stored.verify_directly_issued_by(authority.certificate)
                found.add("server.p12")
        with contextlib.suppress(OSError, ValueError, TypeError):
            trusted = pkcs12.load_pkcs12((directory / "ca.p12").read_bytes(), password.encode())
            if [one.certificate for one in trusted.additional_certs] == [authority.certificate]:
                found.add("ca.p12")
    return frozenset(found)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new P-256 private key: supported by every TLS library, with cheap handshakes."""
    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Parse an EC private key. Raises BadMaterial for any other key."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise errors.BadMaterial(f"a private key cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise errors.BadMaterial("a private key is not an EC key")
    return key


def load_pair(certificate_pem: bytes, key_pem: bytes) -> Pair:
    """Parse a certificate, the first of the PEM, and its EC key. Raises BadMaterial, also if they differ."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except ValueError as error:
        raise errors.BadMaterial(f"a certificate cannot be read: {error}") from error
    key = load_key(key_pem)
    if certificate_checks.public_bytes(certificate.public_key()) != certificate_checks.public_bytes(
        key.public_key()
    ):
        raise errors.BadMaterial("the private key does not belong to the certificate")
    return Pair(certificate, key)


def host_name(host: str) -> x509.GeneralName:
    """Return a host as a SAN entry: an address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if len(host) > 253 or not HOST.fullmatch(host.lower()):
        raise errors.BadHost(f"{host!r} is neither a DNS name nor an address: omit scheme, port and path")
    return x509.DNSName(host.lower())


def alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Return the hosts as SAN entries. Raises BadHost, also if there are none."""
    if not hosts:
        raise errors.BadHost("a server certificate needs at least one host name or address")
    return [host_name(each) for each in hosts]


def spelled(hosts: Sequence[str]) -> list[str]:
    """Return the hosts as they are in a certificate. Raises BadHost."""
    return [str(host_name(each).value) for each in hosts]


def with_names_of(held: x509.Certificate, hosts: Sequence[str]) -> list[str]:
    """Return the hosts, and those of a former certificate that are not among them. Raises BadHost."""
    own = spelled(hosts)
    return [*hosts, *(each for each in certificate_checks.hosts(held) if each.lower() not in own)]


def with_former_names(directory: pathlib.Path, hosts: Sequence[str]) -> list[str]:
    """Return the hosts, and those of the directory's server.crt, if it has one: a renewal drops no name.

    Raises BadHost, and BadMaterial if the former names cannot be read.
    """
    path = directory / "server.crt"
    try:
        return with_names_of(x509.load_pem_x509_certificate(path.read_bytes()), hosts)
    except FileNotFoundError:
        return list(hosts)
    except ValueError as error:
        raise errors.BadMaterial(
            f"the names in {path.absolute()} cannot be read ({error}): move or delete it and its key"
        ) from error


def server_pair(authority: Pair, hosts: Sequence[str], now: datetime.datetime, days: float) -> Pair:
    """Issue a server certificate for these names, valid at most as long as the CA. Raises BadHost."""
    return _signed(authority, hosts[0], alternative_names(hosts), "server", now, days)


def client_pair(authority: Pair, role: str, now: datetime.datetime, days: float) -> Pair:
    """Issue a client certificate with a role, valid at most as long as the CA."""
    uri = x509.UniformResourceIdentifier(role_names.uri(role))
    return _signed(authority, f"topolog-{role}", [uri], "client", now, days)


def new_authority(now: datetime.datetime, days: float) -> Pair:
    """Create a CA that signs certificates, and no other CAs."""
    key = new_key()
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, "topolog-ca")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = _usage(signs_certificates=True)
    builder = (
        _builder(name, name, key, now, now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
    )
    return Pair(builder.sign(key, HASH), key)


def _signed(
    authority: Pair,
    common_name: str,
    alternatives: Sequence[x509.GeneralName],
    purpose: str,
    now: datetime.datetime,
    days: float,
) -> Pair:
    key = new_key()
    end = min(now + datetime.timedelta(days=days), authority.certificate.not_valid_after_utc)
    # A common name has at most 64 characters; clients use the SAN.
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, common_name[:64])])
    issuer = authority.certificate
    usages = {
        "server": oid.ExtendedKeyUsageOID.SERVER_AUTH,
        "client": oid.ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    builder = (
        _builder(name, issuer.subject, key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usages[purpose]]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(_identifier(authority), critical=False)
    )
    return Pair(builder.sign(authority.key, HASH), key)


def _identifier(authority: Pair) -> x509.AuthorityKeyIdentifier:
    """The identifier of the CA's key: as the CA has it, or derived from the key for a CA that has none."""
    try:
        own = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _kept_authority(
    directory: pathlib.Path, authority_key: pathlib.Path | None, now: datetime.datetime
) -> Pair | None:
    """Return the existing CA, or None. Raises BadMaterial if it cannot be used."""
    certificate_path, key_path = directory / "ca.crt", authority_key or directory / "ca.key"
    existing = [path for path in (certificate_path, key_path) if os.path.lexists(path)]
    if not existing and authority_key is None:
        return None
    place = directory.absolute()
    if certificate_path not in existing:
        raise errors.BadMaterial(f"{place} contains no ca.crt for the key {key_path}")
    if key_path not in existing:
        raise errors.BadMaterial(
            f"{place} contains a ca.crt without its key: pass the key with --ca-key; {_FORCE_HINT}"
        )
    try:
        pair = load_pair(certificate_path.read_bytes(), key_path.read_bytes())
    except errors.BadMaterial as error:
        raise errors.BadMaterial(
            f"existing {certificate_path} and {key_path} cannot be reused ({error}): move or delete them"
        ) from error
    flaw = certificate_checks.flaw_of_authority(pair.certificate)
    if flaw := flaw or certificate_checks.flaw_of_time(pair.certificate, now):
        raise errors.BadMaterial(f"{certificate_path}: {flaw}; {_FORCE_HINT}")
    return pair


def _stores(server: Pair, authority: Pair, password: str) -> dict[str, bytes]:
    encryption = serialization.BestAvailableEncryption(password.encode())
    return {
        "server.p12": pkcs12.serialize_key_and_certificates(
            b"server", server.key, server.certificate, None, encryption
        ),
        # Marked as trusted for Java, which `openssl pkcs12 -nokeys` does not do.
        "ca.p12": pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(authority.certificate, b"ca")], encryption
        ),
    }
