"""How long a client may take over each part of a call, and reading that holds it to that.

A timeout for each read does not stop a client that sends one byte a second. So every part has one deadline,
fixed when it begins, whatever arrives meanwhile. The handshake and the head of a request are waited for
without a thread (`connections`); a body and an answer take one, and only from a client that has shown its
certificate.
"""

import dataclasses
import errno
import io
import time
from typing import TYPE_CHECKING, Final

from gunicorn.http import body, unreader

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

RECORD: Final = 16 * 1024
"""What one TLS record holds: asking for more only makes Python allocate it in vain."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds for each part of a call, whatever the client sends meanwhile."""

    handshake: float = 3.5
    head: float = 3.5
    body: float = 5.0
    """kube-scheduler gives up on the whole call after 5 s, unless it is told otherwise."""
    answer: float = 5.0
    """For each piece of an answer: a stream of events lasts longer."""
    idle: int = 120
    """Longer than the 90 s after which Go closes an idle connection: who closes first can cut off a call."""
    age: float = 3600.0
    """After that a connection ends behind its next answer: who calls is found out in a handshake only, so a
    certificate that was revoked or has run out is good until then."""
    parting: float = 1.0
    """How long a client that is sent away with an answer has to read it."""


class Late(ConnectionResetError):
    """The client did not send in time what it began. To gunicorn it is as if it had hung up."""

    def __init__(self, missing: str) -> None:
        super().__init__(errno.ECONNRESET, f"the client did not send {missing} in time")


class Cut(ConnectionResetError):
    """The client hung up before it had sent all that it announced."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "the client hung up in the middle of a body")


class Reader(unreader.SocketUnreader):
    """What gunicorn's parser reads a connection through; each read ends at `deadline` (monotonic)."""

    deadline = 0.0
    answer_seconds = 0.0
    """The timeout that the socket gets once a body has been read."""

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Return what the client sent, at most a record of it; b"" at the end. Raises Late."""
        self._allow()
        try:
            return self.sock.recv(min(size_hint or RECORD, RECORD))
        except TimeoutError as error:
            raise Late("its request") from error

    def take(self, length: int) -> bytes:
        """Return exactly so many bytes. Raises Late and Cut."""
        held = self.take_buffered()
        if len(held) >= length:
            self.unread(held[length:])
            return held[:length]
        # Received where they stay: with whole nodes, each copy saved is a tenth of the time.
        whole = io.BytesIO(bytes(length))
        with whole.getbuffer() as view:
            view[: len(held)] = held
            self._fill(view, len(held))
        # What follows on this socket is the answer.
        self.sock.settimeout(self.answer_seconds)
        return whole.getvalue()

    def _fill(self, view: memoryview, filled: int) -> None:
        while filled < len(view):
            self._allow()
            try:
                received = self.sock.recv_into(view[filled:])
            except TimeoutError as error:
                raise Late("its request") from error
            if not received:
                raise Cut
            filled += received

    def _allow(self) -> None:
        """Let the next read wait until the deadline."""
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise Late("its request")
        self.sock.settimeout(remaining)


class Payload(io.RawIOBase):
    """The body of a request whose length was announced: what an application finds as wsgi.input."""

    failed = False
    """Set once reading failed: where the next request begins is then unknown (gunicorn asks for it)."""

    def __init__(self, reader: Reader, length: int) -> None:
        super().__init__()
        self._reader = reader
        self._missing = length

    @classmethod
    def of(cls, found: body.Body, reader: Reader) -> "Payload | body.Body":
        """Return a payload in the place of gunicorn's body, where the length is known."""
        if isinstance(found.reader, body.LengthReader):
            return cls(reader, found.reader.length)
        return found

    def readable(self) -> bool:
        """Return that this can be read."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes, or all that is left. Raises Late and Cut."""
        wanted = self._missing if size is None or size < 0 else min(size, self._missing)
        if not wanted:
            return b""
        try:
            data = self._reader.take(wanted)
        except OSError:
            self.failed = True
            raise
        self._missing -= wanted
        return data

    def readinto(self, buffer: "Buffer", /) -> int:
        """Fill the buffer as far as there is something left; return how many bytes. Raises Late and Cut."""
        with memoryview(buffer).cast("B") as view:
            data = self.read(len(view))
            view[: len(data)] = data
        return len(data)

    def finished(self, most: int) -> bool:
        """Read what is left, if that is little; return whether nothing is left now. Raises Late and Cut."""
        if self.failed or self._missing > most:
            return False
        self.read()
        return True

    def abandon(self) -> None:
        """Leave the rest unread: the connection ends with this request."""
        self.failed = True
