"""A TLS socket that caches the identity of its peer."""

import ssl
from typing import Any, cast


class TlsSocket(ssl.SSLSocket):
    """The server side of a TLS connection.

    `identity` is set by `roles.RoleBindings`: decoding the peer's certificate for every request would take as
    long as parsing the request's head.
    """

    identity: object = None


def expiry(connection: ssl.SSLSocket) -> float:
    """When the certificate of the peer ends, in POSIX time."""
    return float(ssl.cert_time_to_seconds(cast(Any, connection.getpeercert())["notAfter"]))
