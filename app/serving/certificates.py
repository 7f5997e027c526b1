"""What is wrong with a certificate, in one sentence.

OpenSSL finds most of this only when a client connects, and Go, in which kube-scheduler is written, is
stricter than Python about the rest. So it is checked when the files are read, where somebody is looking.
"""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import types as keys
from cryptography.x509 import oid
from OpenSSL import crypto

PrivateKey = keys.PrivateKeyTypes


def flaw_of_server(certificate: x509.Certificate, key: PrivateKey, now: datetime.datetime) -> str | None:
    """Say why a server with this certificate and key would be of no use, or None."""
    if public_bytes(certificate.public_key()) != public_bytes(key.public_key()):
        return (
            f"the private key does not belong to the certificate, serial {certificate.serial_number:x}"
            " (is one of them still the old one?)"
        )
    if flaw := flaw_of_time(certificate, now):
        return flaw
    if not hosts(certificate):
        return (
            "the certificate has no subject alternative name (SAN): Go clients, so kube-scheduler, ignore the"
            " common name and refuse every connection; issue it with `topolog certs`, or sign it with"
            " subjectAltName=DNS:<service>.<namespace>.svc"
        )
    usages = extended_usages(certificate)
    if usages and not usages & {
        oid.ExtendedKeyUsageOID.SERVER_AUTH,
        oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    }:
        return "the certificate's extended key usage lacks serverAuth: clients refuse it"
    return None


def flaw_of_authority(certificate: x509.Certificate) -> str | None:
    """Say why no client certificate can be verified with this one, or None."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        # The oldest form of a root has no extensions; OpenSSL takes it if it signed itself.
        first = certificate.version == x509.Version.v1 and certificate.issuer == certificate.subject
        return None if first else "it is not a certificate authority (no basicConstraints CA:TRUE)"
    return None if constraints.ca else "it is not a certificate authority (basicConstraints CA:FALSE)"


def flaw_of_time(certificate: x509.Certificate, now: datetime.datetime) -> str | None:
    """Say that a certificate is no longer or not yet valid, or None."""
    if now > certificate.not_valid_after_utc:
        return f"the certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if now < certificate.not_valid_before_utc:
        return f"the certificate is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    return None


def hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the DNS names and addresses in the certificate's SAN."""
    names = alternative_names(certificate)
    if names is None:
        return ()
    addresses = (str(each) for each in names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    """Return the subject alternative names, if the certificate has any."""
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def extended_usages(certificate: x509.Certificate) -> frozenset[x509.ObjectIdentifier]:
    """Return what the certificate may be used for; empty if it does not say."""
    try:
        return frozenset(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return frozenset()


def flaw_of_client(
    certificate: x509.Certificate,
    authorities: tuple[x509.Certificate, ...],
    revocations: tuple[x509.CertificateRevocationList, ...] = (),
    now: datetime.datetime | None = None,
) -> str | None:
    """Say why a client with this certificate would be refused in the handshake, or None.

    The same checks as the server's: chain, time and, where there are revocation lists, revocation.
    """
    store = crypto.X509Store()
    for each in authorities:
        store.add_cert(crypto.X509.from_cryptography(each))
    for listed in revocations:
        store.add_crl(listed)
    if revocations:
        store.set_flags(crypto.X509StoreFlags.CRL_CHECK)
    if now is not None:
        store.set_time(now)
    try:
        crypto.X509StoreContext(store, crypto.X509.from_cryptography(certificate)).verify_certificate()
    except crypto.X509StoreContextError as error:
        return str(error)
    usages = extended_usages(certificate)
    if usages and not usages & {
        oid.ExtendedKeyUsageOID.CLIENT_AUTH,
        oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    }:
        return "the certificate's extended key usage lacks clientAuth"
    return None


def public_bytes(key: keys.PublicKeyTypes) -> bytes:
    """Return a public key in a form that can be compared."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
