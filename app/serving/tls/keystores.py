"""Loads the server's certificate, key and trusted CAs from PEM files or PKCS12 stores.

PKCS12 stores are set by TLS_KEYSTORE_PATH, TLS_KEYSTORE_PASSWORD, TLS_TRUSTSTORE_PATH and
TLS_TRUSTSTORE_PASSWORD. A trust store created by `openssl pkcs12 -export -nokeys` lacks the attribute that
marks a trusted certificate for Java; here every certificate in it is trusted.

All files are read once into `Material`, so that the served material is the one that was checked.
"""

import dataclasses
import datetime
import pathlib
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from app import settings
from app.serving import errors
from app.serving.tls import certificate_checks

WELL_KNOWN_PASSWORD = "changeit"
EXPIRY_WARNING = datetime.timedelta(days=14)
PEM_MARK = b"-----BEGIN "
JKS_MARK = b"\xfe\xed\xfe\xed"
LABELS = {
    "certificate": "TLS certificate",
    "key": "TLS key",
    "trust": "TLS trust store",
    "crl": "TLS revocation list",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The files of the TLS material. Each may be PEM or PKCS12, detected by its content.

    certificate: the server's certificate followed by its chain, or a store with key and certificate.
    key: the private key in PEM; None if `certificate` contains it.
    trust: the CAs that sign client certificates. crl: revocation lists in PEM, or None.
    """

    certificate: pathlib.Path
    trust: pathlib.Path
    key: pathlib.Path | None = None
    crl: pathlib.Path | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    trust_password: str | None = dataclasses.field(default=None, repr=False)

    def paths(self) -> tuple[pathlib.Path, ...]:
        """Return the files that the material is read from."""
        return tuple(each for each in (self.certificate, self.key, self.trust, self.crl) if each is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class Material:
    """The verified TLS material of a server, with warnings for the operator."""

    key_pem: bytes = dataclasses.field(repr=False)
    chain: tuple[x509.Certificate, ...]
    authorities: tuple[x509.Certificate, ...]
    revocations: tuple[x509.CertificateRevocationList, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def expires(self) -> datetime.datetime:
        """Return when the server's certificate expires."""
        return self.chain[0].not_valid_after_utc

    def expiries(self) -> dict[str, datetime.datetime]:
        """Return when each file expires: with the first certificate or list in it.

        A former CA is trusted beside the one of its name that has replaced it until it ends, without harm.
        """
        authorities: dict[x509.Name, datetime.datetime] = {}
        for each in self.authorities:
            end = each.not_valid_after_utc
            authorities[each.subject] = max(end, authorities.get(each.subject, end))
        found = {
            "server": min(each.not_valid_after_utc for each in self.chain),
            "ca": min(authorities.values()),
        }
        due = [each.next_update_utc for each in self.revocations if each.next_update_utc]
        return {**found, "crl": min(due)} if due else found

    def chain_pem(self) -> bytes:
        """Return the server's certificate and its intermediates in PEM."""
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in self.chain)

    def trust_pem(self) -> bytes:
        """Return the authorities and the revocation lists in PEM."""
        signed: tuple[x509.Certificate | x509.CertificateRevocationList, ...]
        signed = (*self.authorities, *self.revocations)
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in signed)


def source_from(tls: settings.Tls) -> Source | None:
    """Return the files that the settings name, or None if they name none.

    Raises BadMaterial if only the certificate or only the CA is named.
    """
    certificate, trust = tls.cert or tls.keystore_path, tls.ca or tls.truststore_path
    if not certificate and not trust:
        return None
    if not trust:
        raise errors.BadMaterial(
            "a server certificate is set but no CA to verify clients: set tls.ca (PEM)"
            " or TLS_TRUSTSTORE_PATH (PKCS12)"
        )
    if not certificate:
        raise errors.BadMaterial(
            "a CA to verify clients is set but no server certificate: set tls.cert and tls.key (PEM)"
            " or TLS_KEYSTORE_PATH (PKCS12)"
        )
    return Source(
        certificate=pathlib.Path(certificate),
        trust=pathlib.Path(trust),
        key=pathlib.Path(tls.key) if tls.key else None,
        crl=pathlib.Path(tls.crl) if tls.crl else None,
        password=tls.keystore_password or None,
        trust_password=tls.truststore_password or None,
    )


def read(source: Source, *, now: datetime.datetime | None = None, hosts_required: bool = True) -> Material:
    """Load and verify the material. Raises BadMaterial.

    Without `hosts_required`, a server certificate without SAN only causes a warning, although Go clients
    refuse it.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    key, chain = _server(source)
    authorities = _authorities(source)
    warnings = [*_weak_passwords(source), *_expiring(source, chain[0], authorities, now)]
    flaw = certificate_checks.flaw_of_server(chain[0], key, now)
    if flaw and not hosts_required and not certificate_checks.hosts(chain[0]):
        warnings.append(f"{_label('certificate', source.certificate)}: {flaw}")
    elif flaw:
        raise errors.BadMaterial(f"{_label('certificate', source.certificate)}: {flaw}")
    if all(certificate_checks.flaw_of_time(each, now) for each in authorities):
        flaw = certificate_checks.flaw_of_time(authorities[0], now)
        raise errors.BadMaterial(f"{_label('trust', source.trust)}: {flaw}")
    revocations, stale = _revocations(source, now)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Material(key_pem, chain, authorities, revocations, (*warnings, *stale))


def _server(source: Source) -> tuple[certificate_checks.PrivateKey, tuple[x509.Certificate, ...]]:
    label = _label("certificate", source.certificate)
    content = _content("certificate", source.certificate)
    if PEM_MARK not in content:
        key, certificate, others = _load_pkcs12(content, label, source.password, "TLS_KEYSTORE_PASSWORD")
        if key is None or certificate is None:
            raise errors.BadMaterial(
                f"{label} contains no private key for its certificate: export it with -inkey and -in"
            )
        return key, (certificate, *others)
    chain = _pem_certificates(content, label)
    if not chain:
        raise errors.BadMaterial(f"{label} contains no certificate")
    if source.key is not None:
        key_label, key_content = _label("key", source.key), _content("key", source.key)
    else:
        key_label, key_content = label, content
    return _pem_key(key_content, key_label, source.password), chain


def _authorities(source: Source) -> tuple[x509.Certificate, ...]:
    label = _label("trust", source.trust)
    content = _content("trust", source.trust)
    if PEM_MARK in content:
        found = _pem_certificates(content, label)
    else:
        _, certificate, others = _load_pkcs12(
            content, label, source.trust_password, "TLS_TRUSTSTORE_PASSWORD"
        )
        found = (*((certificate,) if certificate else ()), *others)
    if not found:
        raise errors.BadMaterial(
            f"{label} contains no certificate: it must contain the CA that signed the client certificates"
        )
    for each in found:
        if flaw := certificate_checks.flaw_of_authority(each):
            name = each.subject.rfc4514_string() or "an unnamed certificate"
            raise errors.BadMaterial(
                f"{label} contains {name}, but {flaw}: use the CA that signed the client certificates"
            )
    return found


def _load_pkcs12(
    content: bytes, label: str, password: str | None, setting: str
) -> tuple[certificate_checks.PrivateKey | None, x509.Certificate | None, tuple[x509.Certificate, ...]]:
    """Return key, certificate and the other certificates of a PKCS12 store."""
    if content.startswith(JKS_MARK):
        raise errors.BadMaterial(
            f"{label} is a Java JKS store: convert it with keytool -importkeystore -deststoretype pkcs12"
        )
    if not content.startswith(b"\x30"):
        raise errors.BadMaterial(f"{label} is neither PEM nor PKCS12")
    if len(content) < _der_length(content):
        raise errors.BadMaterial(f"{label} is truncated: {len(content)} bytes of {_der_length(content)}")
    try:
        # PKCS12 distinguishes an empty password from none; here an empty one means none.
        store = pkcs12.load_pkcs12(content, password.encode() if password else None)
    except ValueError as error:
        given = (
            f"with the password of {setting}" if password else f"without a password, and {setting} is not set"
        )
        raise errors.BadMaterial(f"{label} cannot be opened {given}") from error
    except Exception as error:
        # Old exports use ciphers that OpenSSL 3 has disabled; cryptography raises various types for
        # them.
        raise errors.BadMaterial(
            f"{label} cannot be read ({error}): export it again with OpenSSL 3"
        ) from error
    first = store.cert.certificate if store.cert else None
    return store.key, first, tuple(each.certificate for each in store.additional_certs)


def _der_length(content: bytes) -> int:
    """Return the declared size of the outermost DER element in bytes; 0 if it has none."""
    if len(content) < 2 or content[1] <= 0x80:
        return 2 + content[1] if len(content) >= 2 and content[1] < 0x80 else 0
    size = content[1] & 0x7F
    return 2 + size + int.from_bytes(content[2 : 2 + size], "big")


def _pem_certificates(content: bytes, label: str) -> tuple[x509.Certificate, ...]:
    if b"-----BEGIN CERTIFICATE-----" not in content:
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(content))
    except ValueError as error:
        raise errors.BadMaterial(f"{label} contains a certificate that cannot be read: {error}") from error


def _pem_key(content: bytes, label: str, password: str | None) -> certificate_checks.PrivateKey:
    if b"PRIVATE KEY-----" not in content:
        raise errors.BadMaterial(f"{label} contains no private key")
    encrypted = b"ENCRYPTED" in content
    try:
        return serialization.load_pem_private_key(
            content, password.encode() if password and encrypted else None
        )
    except TypeError as error:
        raise errors.BadMaterial(
            f"{label} is encrypted and no password is set (TLS_KEYSTORE_PASSWORD)"
        ) from error
    except ValueError as error:
        raise errors.BadMaterial(f"{label} cannot be read: {error}") from error


def _revocations(
    source: Source, now: datetime.datetime
) -> tuple[tuple[x509.CertificateRevocationList, ...], tuple[str, ...]]:
    if source.crl is None:
        return (), ()
    label = _label("crl", source.crl)
    mark = b"-----BEGIN X509 CRL-----"
    pieces = _content("crl", source.crl).split(mark)[1:]
    try:
        lists = tuple(x509.load_pem_x509_crl(mark + piece) for piece in pieces)
    except ValueError as error:
        raise errors.BadMaterial(f"{label} cannot be read: {error}") from error
    if not lists:
        raise errors.BadMaterial(f"{label} contains no revocation list in PEM")
    stale = (
        f"{label} expired on {each.next_update_utc:%Y-%m-%d %H:%M} UTC:"
        " every client is refused until it is renewed"
        for each in lists
        if each.next_update_utc is not None and each.next_update_utc < now
    )
    return lists, tuple(stale)


def _content(kind: str, path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        hint = "mount it, or create one with `topolog certs`"
        raise errors.BadMaterial(f"{_label(kind, path)} does not exist: {hint}") from error
    except OSError as error:
        raise errors.BadMaterial(f"{_label(kind, path)} cannot be read: {error.strerror}") from error


def _label(kind: str, path: pathlib.Path) -> str:
    return f"{LABELS[kind]} {path.absolute()}"


def _weak_passwords(source: Source) -> Iterable[str]:
    given = (
        ("certificate", source.certificate, source.password),
        ("trust", source.trust, source.trust_password),
    )
    for kind, path, password in given:
        if password == WELL_KNOWN_PASSWORD:
            yield f"{_label(kind, path)} has the well-known password {WELL_KNOWN_PASSWORD}: choose another"


def _expiring(
    source: Source, server: x509.Certificate, authorities: Iterable[x509.Certificate], now: datetime.datetime
) -> Iterable[str]:
    if now < server.not_valid_after_utc < now + EXPIRY_WARNING:
        end = f"{server.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        yield f"{_label('certificate', source.certificate)} expires on {end}"
    for each in authorities:
        if flaw := certificate_checks.flaw_of_time(each, now):
            yield f"{_label('trust', source.trust)}: of {each.subject.rfc4514_string()}, {flaw}"
