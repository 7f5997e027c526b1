"""Issuing the certificates that a cluster needs: a CA, the server's, and one for each role.

They are what kube-scheduler, which is a Go program, accepts: the server's names are subject alternative
names, and what a certificate is for stands in its extended key usage. A client's role is a URI in its SAN
(`identities.uri`). Nothing that exists is replaced unless it is asked for: `Replace.SIGNED` renews what the
authority has signed, so that running servers and clients go on trusting one another.
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

from app.serving import certificates, errors, identities

HOST = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*")
HASH = hashes.SHA256()
SKEW = datetime.timedelta(minutes=5)
"""Certificates are valid from a little before their making: clocks differ."""


@dataclasses.dataclass(frozen=True, slots=True)
class Issued:
    """What was written where: `files` by name (`server.crt`), and when each certificate expires."""

    directory: pathlib.Path
    hosts: tuple[str, ...]
    files: Mapping[str, pathlib.Path]
    expires: Mapping[str, datetime.datetime]
    authority_kept: bool
    replaced: tuple[str, ...]
    """Names of the files that were there before and hold something else now."""


_ANEW = "--force makes a new CA, which nobody trusts yet"


class Replace(enum.Enum):
    """What an issue may replace."""

    NOTHING = enum.auto()
    SIGNED = enum.auto()
    """Certificates that the authority has signed, and their keys."""
    ALL = enum.auto()
    """Everything, the authority included."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def certificate_pem(self) -> bytes:
        """Return the certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        """Return the key in PEM, PKCS8, not encrypted: the file's mode protects it."""
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
    """Write ca, server, scheduler, viewer and operator (.crt and .key) into a directory, all with mode 0600.

    `hosts` are the DNS names and addresses by which the server is reached. With a password, server.p12 and
    ca.p12 are written too: the stores of TLS_KEYSTORE_PATH and TLS_TRUSTSTORE_PATH. `authority_key` is the
    key of the directory's ca.crt where it is kept elsewhere. Raises BadHost, BadMaterial, and WouldReplace
    before anything is written.
    """
    alternatives = [host_name(each) for each in hosts]
    if not alternatives:
        raise errors.BadHost(
            "a server certificate needs at least one host name or address by which it is reached"
        )
    now = now or datetime.datetime.now(datetime.UTC)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    anew = replace is Replace.ALL and authority_key is None
    kept = None if anew else _kept_authority(directory, authority_key, now)
    authority = kept or _authority(now, authority_days)
    end = min(now + datetime.timedelta(days=days), authority.certificate.not_valid_after_utc)
    pairs = {"ca": authority, "server": _signed(authority, hosts[0], alternatives, "server", now, end)}
    for role in identities.ROLES:
        uri = x509.UniformResourceIdentifier(identities.uri(role))
        pairs[role] = _signed(authority, f"topolog-{role}", [uri], "client", now, end)
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
    return Issued(
        directory=directory,
        hosts=tuple(hosts),
        files={
            **({"ca.crt": directory / "ca.crt"} if kept else {}),
            **{name: _write(directory / name, content) for name, content in contents.items()},
        },
        expires={name: pair.certificate.not_valid_after_utc for name, pair in pairs.items()},
        authority_kept=kept is not None,
        replaced=replaced,
    )


def _refusal(directory: pathlib.Path, names: Sequence[str], *, renewing: bool) -> str:
    what = f"in {directory.absolute()} this would replace {', '.join(names)}"
    if renewing:
        return f"{what}, which ca.crt has not signed: move them away, or replace everything with --force"
    return (
        f"{what}: --renew replaces what ca.crt has signed and keeps the CA, --force replaces everything and"
        " makes a new CA, which nobody trusts yet"
    )


def _signed_by(authority: Pair, directory: pathlib.Path, password: str | None) -> frozenset[str]:
    """The files of certificates that the authority has signed, and of the keys that belong to them."""
    found: set[str] = set()
    for name in ("server", *identities.ROLES):
        with contextlib.suppress(OSError, ValueError, TypeError, InvalidSignature, errors.BadMaterial):
            certificate = x509.load_pem_x509_certificate((directory / f"{name}.crt").read_bytes())
            certificate.verify_directly_issued_by(authority.certificate)
            found.add(f"{name}.crt")
            key = load_key((directory / f"{name}.key").read_bytes()).public_key()
            if certificates.public_bytes(key) == certificates.public_bytes(certificate.public_key()):
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
    """Return a new private key: P-256, which every TLS library knows and which makes handshakes cheap."""
    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return a private key that was made here. Raises BadMaterial for any other."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise errors.BadMaterial(f"a private key cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise errors.BadMaterial("a private key is not an EC key")
    return key


def host_name(host: str) -> x509.GeneralName:
    """Return a host as it stands in a SAN: an address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if len(host) > 253 or not HOST.fullmatch(host.lower()):
        raise errors.BadHost(
            f"{host!r} is neither a DNS name nor an address: give it without scheme, port and path"
        )
    return x509.DNSName(host.lower())


def _authority(now: datetime.datetime, days: int) -> Pair:
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
    end: datetime.datetime,
) -> Pair:
    key = new_key()
    # A common name has room for 64 characters; nobody reads it, the SAN counts.
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, common_name[:64])])
    issuer = authority.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
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
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
    )
    return Pair(builder.sign(authority.key, HASH), key)


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
    """Return the authority of an earlier run; None if there is none. Raises BadMaterial."""
    certificate_path, key_path = directory / "ca.crt", authority_key or directory / "ca.key"
    there = [path for path in (certificate_path, key_path) if os.path.lexists(path)]
    if not there and authority_key is None:
        return None
    place = directory.absolute()
    if certificate_path not in there:
        raise errors.BadMaterial(f"{place} holds no ca.crt for the key {key_path}")
    if key_path not in there:
        raise errors.BadMaterial(
            f"{place} holds a ca.crt without its key: give the path of the key with --ca-key; {_ANEW}"
        )
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = load_key(key_path.read_bytes())
    except (ValueError, errors.BadMaterial) as error:
        raise errors.BadMaterial(
            f"{certificate_path} and {key_path} are no CA that can sign ({error}): move them away"
        ) from error
    if certificates.public_bytes(certificate.public_key()) != certificates.public_bytes(key.public_key()):
        raise errors.BadMaterial(f"{key_path} does not belong to {certificate_path}: move them away")
    if flaw := certificates.flaw_of_time(certificate, now):
        raise errors.BadMaterial(f"{certificate_path}: {flaw}; {_ANEW}")
    return Pair(certificate, key)


def _stores(server: Pair, authority: Pair, password: str) -> dict[str, bytes]:
    encryption = serialization.BestAvailableEncryption(password.encode())
    return {
        "server.p12": pkcs12.serialize_key_and_certificates(
            b"server", server.key, server.certificate, None, encryption
        ),
        # Marked as trusted, which `openssl pkcs12 -nokeys` does not do: so Java sees the entry too.
        "ca.p12": pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(authority.certificate, b"ca")], encryption
        ),
    }


def _write(path: pathlib.Path, content: bytes) -> pathlib.Path:
    """Write a file so that a reader sees the old or the new one, and nobody else sees either."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    return path
