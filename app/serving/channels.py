"""One TLS connection, with what is found out about it once."""

import errno
import ssl
import typing

if typing.TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Channel(ssl.SSLSocket):
    """The server's end of a TLS connection.

    `identity` is kept by `identities.Roster`: decoding the peer's certificate for every request would cost
    as much as reading the request's head.
    """

    identity: object = None

    def sendall(self, data: "ReadableBuffer", flags: int = 0) -> None:
        """Send all or fail; a client that does not read its answer in time counts as gone."""
        try:
            super().sendall(data, flags)
        except TimeoutError as error:
            raise BrokenPipeError(errno.EPIPE, "the client does not read its answer") from error
