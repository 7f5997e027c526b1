"""A CA below a root that is at hand nowhere, as companies let issue certificates."""

import datetime
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from app.serving.tls import certificate_issuer


def made() -> certificate_issuer.Pair:
    """The certificate that the root has signed, and its key."""
    now, end = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1000)
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"),
        False,
    )
    held = (
        x509.CertificateBuilder()
        .subject_name(_name("Example issuing CA"))
        .issuer_name(_name("Example root"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - certificate_issuer.SKEW)
        .not_valid_after(now + end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **usage
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), critical=False)
        .sign(root, hashes.SHA256())
    )
    return certificate_issuer.Pair(held, key)


def write(folder: pathlib.Path) -> None:
    """Write it where ``topolog certs`` finds a CA that exists."""
    folder.mkdir()
    pair = made()
    (folder / "ca.crt").write_bytes(pair.certificate_pem())
    (folder / "ca.key").write_bytes(pair.key_pem())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, common)])
