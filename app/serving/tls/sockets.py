"""A TLS socket that caches the identity of its peer."""

import ssl


class TlsSocket(ssl.SSLSocket):
    """The server side of a TLS connection.

    `identity` is set by `roles.RoleBindings`: decoding the peer's certificate for every request would take as
    long as parsing the request's head.
    """

    identity: object = None
