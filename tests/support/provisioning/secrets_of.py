"""Reads the Secrets of an installation, with nothing of the code that makes them."""

import base64
import datetime
import hashlib
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

Object = dict[str, Any]

HOME = "topolog-system"
CLIENTS = ("scheduler", "viewer", "operator")
CERTIFICATES = ("topolog-tls", *(f"topolog-{role}-tls" for role in CLIENTS))
STORE = ("topolog-store", "topolog-valkey-acl")
ALL = {"topolog-ca", *CERTIFICATES, *STORE}
USERS = (
    "recorder",
    "controller",
    "extender",
    "compactor",
    "auditor",
    "viewer",
    "operator",
    "migrator",
    "doctor",
)


def data(secret: Object) -> dict[str, bytes]:
    """The decoded data of a Secret."""
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}


def certificate(secret: Object) -> x509.Certificate:
    """The certificate of a Secret of the type kubernetes.io/tls."""
    return x509.load_pem_x509_certificate(data(secret)["tls.crt"])


def names(held: x509.Certificate) -> list[str]:
    """The subject alternative names."""
    found = held.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(each.value) for each in found]


def passwords(secrets: Mapping[str, Object]) -> dict[str, str]:
    """Role -> password, of the URLs."""
    urls = data(secrets["topolog-store"])
    found = {role: urllib.parse.urlsplit(urls[f"{role}-url"].decode()).password for role in USERS}
    return {role: urllib.parse.unquote(each or "") for role, each in found.items()}


def confidential(secrets: Mapping[str, Object]) -> list[str]:
    """Every password, and a line of every private key."""
    keys = [data(secrets[name])["tls.key"].decode() for name in ("topolog-ca", *CERTIFICATES)]
    return [*passwords(secrets).values(), *(key.splitlines()[1] for key in keys)]


def check_complete(secrets: Mapping[str, Object], *, cluster: str = "default", days_later: float = 0) -> None:
    """Check that the Secrets are those of one installation: what trusts what, and who may log in."""
    assert secrets.keys() == ALL
    authority = certificate(secrets["topolog-ca"])
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days_later)
    for name in CERTIFICATES:
        held, given = certificate(secrets[name]), data(secrets[name])
        assert secrets[name]["type"] == "kubernetes.io/tls"
        held.verify_directly_issued_by(authority)
        assert x509.load_pem_x509_certificate(given["ca.crt"]) == authority
        assert held.not_valid_before_utc < now < held.not_valid_after_utc
        key: Any = serialization.load_pem_private_key(given["tls.key"], None)
        assert key.public_key() == held.public_key()
    service = f"topolog-extender.{HOME}.svc"
    assert names(certificate(secrets["topolog-tls"]))[:2] == [service, f"{service}.cluster.local"]
    for role in CLIENTS:
        assert names(certificate(secrets[f"topolog-{role}-tls"])) == [f"spiffe://topolog.io/role/{role}"]
    urls = data(secrets["topolog-store"])
    for role in USERS:
        url = urls[f"{role}-url"].decode()
        assert re.fullmatch(rf"redis://topolog-{cluster}-{role}:[\w-]{{43}}@topolog-valkey:6379", url)
    known = passwords(secrets)
    assert len(set(known.values())) == len(USERS)
    assert data(secrets["topolog-valkey-acl"]) == {
        role: hashlib.sha256(each.encode()).hexdigest().encode() for role, each in known.items()
    }
