"""Checks certificates and describes their flaws in one sentence.

OpenSSL reports most flaws only when a client connects, and Go clients such as kube-scheduler are stricter
than Python. The checks therefore run when the files are loaded, so that the operator sees the result.
"""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import types as keys
from cryptography.x509 import oid

PrivateKey = keys.PrivateKeyTypes


def flaw_of_server(certificate: x509.Certificate, key: PrivateKey, now: datetime.datetime) -> str | None:
    """Return why clients would reject a server with this certificate and key, or None."""
    if public_bytes(certificate.public_key()) != public_bytes(key.public_key()):
        return (
            f"the private key does not belong to the certificate, serial {certificate.serial_number:x}"
            " (was only one of the two files replaced?)"
        )
    if flaw := flaw_of_time(certificate, now):
        return flaw
    if not hosts(certificate):
        return (
            "the certificate has no subject alternative name (SAN): Go clients such as kube-scheduler"
            " ignore the common name and refuse every connection; issue it with `topolog certs`, or sign it"
            " with subjectAltName=DNS:<service>.<namespace>.svc"
        )
    usages = extended_usages(certificate)
    if usages and not usages & {
        oid.ExtendedKeyUsageOID.SERVER_AUTH,
        oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    }:
        return "the certificate's extended key usage lacks serverAuth: clients refuse it"
    return None


def flaw_of_authority(certificate: x509.Certificate) -> str | None:
    """Return why this certificate cannot verify client certificates, or None."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        # X.509 v1 roots have no extensions; OpenSSL accepts them if they are self-signed.
        self_signed_v1 = certificate.version == x509.Version.v1 and certificate.issuer == certificate.subject
        return None if self_signed_v1 else "it is not a certificate authority (no basicConstraints CA:TRUE)"
    return None if constraints.ca else "it is not a certificate authority (basicConstraints CA:FALSE)"


def flaw_of_time(certificate: x509.Certificate, now: datetime.datetime) -> str | None:
    """Return that a certificate has expired or is not yet valid, or None."""
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
    """Return the extended key usages of the certificate; empty without that extension."""
    try:
        return frozenset(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return frozenset()


def public_bytes(key: keys.PublicKeyTypes) -> bytes:
    """Return the DER encoding of a public key, for comparison."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
