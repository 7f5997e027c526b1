"""One TLS connection, with what is found out about it once."""

import errno
import socket
import ssl
import typing

from app.serving import deadlines

if typing.TYPE_CHECKING:
    from _typeshed import ReadableBuffer

CORK = getattr(socket, "TCP_CORK", None)
ANNOUNCED, END = b"\r\nContent-Length: ", b"\r\n\r\n"


class Channel(ssl.SSLSocket):
    """The server's end of a TLS connection.

    `identity` is kept by `identities.Roster`: decoding the peer's certificate for every request would cost
    as much as reading the request's head.
    """

    identity: object = None
    answering = False
    """A request is being answered: a head that announces a body waits for it, and both leave together.

    In a record of its own it would wake the client for nothing, just as the body is to be sent.
    """
    _head = b""

    def sendall(self, data: "ReadableBuffer", flags: int = 0) -> None:
        """Send all or fail; a client that does not read its answer in time counts as gone."""
        head, self._head = self._head, b""
        if head:
            self.reply(head, data)
        elif self.answering and isinstance(data, bytes) and data.endswith(END) and ANNOUNCED in data:
            self._head = data
        else:
            self._send(data)

    def reply(self, head: bytes, data: "ReadableBuffer") -> None:
        """Send a head and what belongs to it, with the beginning of that in the first record."""
        body = memoryview(data)
        room = deadlines.RECORD - len(head)
        if len(body) <= room:
            self._send(head + body)
            return
        # Each record is a write of its own: without this, each would wake the client.
        self._cork(True)
        self._send(head + body[:room])
        self._send(body[room:])
        self._cork(False)

    def finish(self) -> None:
        """Send what waits: the answer is complete."""
        if self._head:
            self.sendall(b"")

    def _cork(self, held: bool) -> None:
        """Let the kernel hold back what does not fill a packet, or send it; where it can (Linux)."""
        if CORK is not None:
            self.setsockopt(socket.IPPROTO_TCP, CORK, held)

    def _send(self, data: "ReadableBuffer") -> None:
        try:
            super().sendall(data)
        except TimeoutError as error:
            raise BrokenPipeError(errno.EPIPE, "the client does not read its answer") from error
