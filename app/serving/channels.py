"""One TLS connection, with what is found out about it once."""

import ssl


class Channel(ssl.SSLSocket):
    """The server's end of a TLS connection.

    `identity` is kept by `identities.Roster`: decoding the peer's certificate for every request would cost
    as much as reading the request's head.
    """

    identity: object = None
