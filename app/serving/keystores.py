"""The server's certificate, its key and the authorities it trusts, out of PEM files or PKCS12 stores.

PKCS12 stores come by the names TLS_KEYSTORE_PATH, TLS_KEYSTORE_PASSWORD, TLS_TRUSTSTORE_PATH and
TLS_TRUSTSTORE_PASSWORD. A trust store made by `openssl pkcs12 -export -nokeys` holds the authority without
the mark by which Java would see it; here every certificate in it counts.

Everything is read once into `Material`, so what was checked is what is served, whatever happens to the files.
"""

import dataclasses
import datetime
import pathlib
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from app import settings
from app.serving import certificates, errors

WELL_KNOWN_PASSWORD = "changeit"
SOON = datetime.timedelta(days=14)
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
    """Where the material is. Each file may be PEM or PKCS12; its content tells.

    certificate: the server's certificate, chain after it, or a store that holds key and certificate.
    key: the private key in PEM; None if `certificate` holds it too.
    trust: the authorities that client certificates must be signed by. crl: revocation lists in PEM, or None.
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
    """What a TLS server needs, checked. `warnings` are sentences for people."""

    key_pem: bytes = dataclasses.field(repr=False)
    chain: tuple[x509.Certificate, ...]
    authorities: tuple[x509.Certificate, ...]
    revocations: tuple[x509.CertificateRevocationList, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def expires(self) -> datetime.datetime:
        """Return when the server's certificate expires."""
        return self.chain[0].not_valid_after_utc

    def chain_pem(self) -> bytes:
        """Return the server's certificate and its intermediates in PEM."""
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in self.chain)

    def trust_pem(self) -> bytes:
        """Return the authorities and the revocation lists in PEM."""
        signed: tuple[x509.Certificate | x509.CertificateRevocationList, ...]
        signed = (*self.authorities, *self.revocations)
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in signed)


def source_of(tls: settings.Tls) -> Source | None:
    """Return where the settings say that the material is, or None if they name no file at all.

    Raises BadMaterial if one half is named without the other.
    """
    certificate, trust = tls.cert or tls.keystore_path, tls.ca or tls.truststore_path
    if not certificate and not trust:
        return None
    if not trust:
        raise errors.BadMaterial(
            "there is a server certificate but no CA to check clients with: set tls.ca (PEM)"
            " or TLS_TRUSTSTORE_PATH (PKCS12)"
        )
    if not certificate:
        raise errors.BadMaterial(
            "there is a CA to check clients with but no server certificate: set tls.cert and tls.key (PEM)"
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
    """Read and check the material. Raises BadMaterial with one sentence.

    Without `hosts_required`, a server certificate without a SAN is only warned of: Go clients refuse it all
    the same.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    key, chain = _server(source)
    authorities = _authorities(source)
    warnings = [*_weak_passwords(source), *_ageing(source, chain[0], authorities, now)]
    flaw = certificates.flaw_of_server(chain[0], key, now)
    if flaw and not hosts_required and not certificates.hosts(chain[0]):
        warnings.append(f"{_told('certificate', source.certificate)}: {flaw}")
    elif flaw:
        raise errors.BadMaterial(f"{_told('certificate', source.certificate)}: {flaw}")
    if all(certificates.flaw_of_time(each, now) for each in authorities):
        flaw = certificates.flaw_of_time(authorities[0], now)
        raise errors.BadMaterial(f"{_told('trust', source.trust)}: {flaw}")
    revocations, stale = _revocations(source, now)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Material(key_pem, chain, authorities, revocations, (*warnings, *stale))


def _server(source: Source) -> tuple[certificates.PrivateKey, tuple[x509.Certificate, ...]]:
    told = _told("certificate", source.certificate)
    content = _content("certificate", source.certificate)
    if PEM_MARK not in content:
        key, certificate, others = _store(content, told, source.password, "TLS_KEYSTORE_PASSWORD")
        if key is None or certificate is None:
            raise errors.BadMaterial(
                f"{told} holds no private key with its certificate: export it with -inkey and -in"
            )
        return key, (certificate, *others)
    chain = _pem_certificates(content, told)
    if not chain:
        raise errors.BadMaterial(f"{told} holds no certificate")
    if source.key is not None:
        key_told, key_content = _told("key", source.key), _content("key", source.key)
    else:
        key_told, key_content = told, content
    return _pem_key(key_content, key_told, source.password), chain


def _authorities(source: Source) -> tuple[x509.Certificate, ...]:
    told = _told("trust", source.trust)
    content = _content("trust", source.trust)
    if PEM_MARK in content:
        found = _pem_certificates(content, told)
    else:
        _, certificate, others = _store(content, told, source.trust_password, "TLS_TRUSTSTORE_PASSWORD")
        found = (*((certificate,) if certificate else ()), *others)
    if not found:
        raise errors.BadMaterial(
            f"{told} is empty: it has to hold the CA that signed the clients' certificates"
        )
    for each in found:
        if flaw := certificates.flaw_of_authority(each):
            name = each.subject.rfc4514_string() or "a certificate without a name"
            raise errors.BadMaterial(
                f"{told} holds {name}, but {flaw}: put the CA there that signed the clients"
            )
    return found


def _store(
    content: bytes, told: str, password: str | None, setting: str
) -> tuple[certificates.PrivateKey | None, x509.Certificate | None, tuple[x509.Certificate, ...]]:
    """Return key, certificate and the other certificates of a PKCS12 store."""
    if content.startswith(JKS_MARK):
        raise errors.BadMaterial(
            f"{told} is a Java JKS store: convert it with keytool -importkeystore -deststoretype pkcs12"
        )
    if not content.startswith(b"\x30"):
        raise errors.BadMaterial(f"{told} is neither PEM nor PKCS12")
    if len(content) < _der_length(content):
        raise errors.BadMaterial(f"{told} is cut short: {len(content)} bytes of {_der_length(content)}")
    try:
        # No password and an empty one are different things in PKCS12, but nobody means the difference.
        store = pkcs12.load_pkcs12(content, password.encode() if password else None)
    except ValueError as error:
        given = (
            f"with the password of {setting}" if password else f"without a password, and {setting} is not set"
        )
        raise errors.BadMaterial(f"{told} does not open {given}") from error
    except Exception as error:
        # Old exports use ciphers that OpenSSL 3 has put aside; cryptography has a class for each
        # kind of that.
        raise errors.BadMaterial(
            f"{told} cannot be read ({error}): export it again with OpenSSL 3"
        ) from error
    first = store.cert.certificate if store.cert else None
    return store.key, first, tuple(each.certificate for each in store.additional_certs)


def _der_length(content: bytes) -> int:
    """Return how long the outermost DER element says it is, in bytes; 0 if it does not say."""
    if len(content) < 2 or content[1] <= 0x80:
        return 2 + content[1] if len(content) >= 2 and content[1] < 0x80 else 0
    size = content[1] & 0x7F
    return 2 + size + int.from_bytes(content[2 : 2 + size], "big")


def _pem_certificates(content: bytes, told: str) -> tuple[x509.Certificate, ...]:
    if b"-----BEGIN CERTIFICATE-----" not in content:
        return ()
    try:
        return tuple(x509.load_pem_x509_certificates(content))
    except ValueError as error:
        raise errors.BadMaterial(f"{told} holds a certificate that cannot be read: {error}") from error


def _pem_key(content: bytes, told: str, password: str | None) -> certificates.PrivateKey:
    if b"PRIVATE KEY-----" not in content:
        raise errors.BadMaterial(f"{told} holds no private key")
    encrypted = b"ENCRYPTED" in content
    try:
        return serialization.load_pem_private_key(
            content, password.encode() if password and encrypted else None
        )
    except TypeError as error:
        raise errors.BadMaterial(
            f"{told} is encrypted and no password is set (TLS_KEYSTORE_PASSWORD)"
        ) from error
    except ValueError as error:
        raise errors.BadMaterial(f"{told} cannot be read: {error}") from error


def _revocations(
    source: Source, now: datetime.datetime
) -> tuple[tuple[x509.CertificateRevocationList, ...], tuple[str, ...]]:
    if source.crl is None:
        return (), ()
    told = _told("crl", source.crl)
    mark = b"-----BEGIN X509 CRL-----"
    pieces = _content("crl", source.crl).split(mark)[1:]
    try:
        lists = tuple(x509.load_pem_x509_crl(mark + piece) for piece in pieces)
    except ValueError as error:
        raise errors.BadMaterial(f"{told} cannot be read: {error}") from error
    if not lists:
        raise errors.BadMaterial(f"{told} holds no revocation list in PEM")
    stale = (
        f"{told} was to be renewed by {each.next_update_utc:%Y-%m-%d %H:%M} UTC:"
        " every client is refused until it is"
        for each in lists
        if each.next_update_utc is not None and each.next_update_utc < now
    )
    return lists, tuple(stale)


def _content(kind: str, path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        hint = "mount it, or make one with `topolog certs`"
        raise errors.BadMaterial(f"{_told(kind, path)} does not exist: {hint}") from error
    except OSError as error:
        raise errors.BadMaterial(f"{_told(kind, path)} cannot be read: {error.strerror}") from error


def _told(kind: str, path: pathlib.Path) -> str:
    return f"{LABELS[kind]} {path.absolute()}"


def _weak_passwords(source: Source) -> Iterable[str]:
    given = (
        ("certificate", source.certificate, source.password),
        ("trust", source.trust, source.trust_password),
    )
    for kind, path, password in given:
        if password == WELL_KNOWN_PASSWORD:
            yield f"{_told(kind, path)} has the well-known password {WELL_KNOWN_PASSWORD}: choose another"


def _ageing(
    source: Source, server: x509.Certificate, authorities: Iterable[x509.Certificate], now: datetime.datetime
) -> Iterable[str]:
    if now < server.not_valid_after_utc < now + SOON:
        end = f"{server.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        yield f"{_told('certificate', source.certificate)} expires on {end}"
    for each in authorities:
        if flaw := certificates.flaw_of_time(each, now):
            yield f"{_told('trust', source.trust)}: of {each.subject.rfc4514_string()}, {flaw}"
