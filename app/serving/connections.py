"""One client's connection: what is taken from it and sent to it, never waiting for the client.

gunicorn does the handshake, reads heads and bodies and writes answers in a thread of its pool, which waits as
long as the client likes. Here each step takes or sends what can be had at the moment, and `state` and
`deadline` say what the connection waits for, and how long it may.
"""

import contextlib
import enum
import select
import socket
import ssl
import time
from collections import deque

from gunicorn import config, sock, util

from app.serving import deadlines, exchanges

HEAD_LIMIT = 64 * 1024
END_OF_HEAD = b"\r\n\r\n"

DRAIN_LIMIT = 16 * 1024 * 1024
"""Bytes that are taken from a client after its last answer. What it had under way when it could not know yet
that it was refused fits in: left unread, it would turn the answer into a reset."""

TURN = 1024 * 1024
"""Bytes that are taken from one connection before others have their turn."""

PIECE = 64 * 1024
CORK = getattr(socket, "TCP_CORK", None)
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class State(enum.Enum):
    """What a connection waits for."""

    GREETING = enum.auto()
    IDLE = enum.auto()
    HEAD = enum.auto()
    CROWDED = enum.auto()
    """A place for its body."""
    BODY = enum.auto()
    WORKING = enum.auto()
    """The application."""
    REPLYING = enum.auto()
    """Its client, which has to read the answer."""
    PAUSED = enum.auto()
    """The time after which it may ask again."""
    PARTING = enum.auto()


class Gone(Exception):
    """The client hung up; `cut`: in the middle of a body."""

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__()
        self.cut = cut


class Connection:
    """A connection with the deadline (monotonic) of the state that it is in.

    After `ends` (monotonic) no request of it is the last but one. `mask` is what the poller watches it for.
    """

    def __init__(
        self,
        cfg: config.Config,
        accepted: socket.socket,
        client: tuple[str, int],
        server: tuple[str, int],
        limits: deadlines.Deadlines,
    ) -> None:
        self.cfg = cfg
        self.sock = accepted
        self.client = client
        self.limits = limits
        self.state = State.GREETING
        self.mask = 0
        self.exchange: exchanges.Exchange | None = None
        self.closing = False
        """The answer that is under way is the last one."""
        self.resting = 0.0
        """Seconds that have to pass behind the answer that is under way."""
        self.question = False
        """A thread of the introspection works on it."""
        self._server = server
        self._came = b""
        self._sending: deque[memoryview] = deque()
        self._corked = False
        self._drained = 0
        accepted.setblocking(False)
        # Without it, an answer in two writes waits for the client's delayed acknowledgement: 40 ms a call.
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = time.monotonic()
        self.deadline = now + limits.handshake
        self.ends = now + limits.age

    def enter(self, state: State, seconds: float) -> None:
        """Begin to wait for something, so long at most."""
        self.state = state
        self.deadline = time.monotonic() + seconds

    def greet(self) -> bool:
        """Go on with the handshake; return whether it is done. Raises OSError."""
        if self.cfg.is_ssl:
            if not isinstance(self.sock, ssl.SSLSocket):
                self.sock = sock.ssl_wrap_socket(self.sock, self.cfg)
            try:
                self.sock.do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
        self.reading = exchanges.Reading(self.cfg, self.sock, self.client, self._server)
        self.enter(State.IDLE, self.limits.idle)
        return True

    def read_head(self) -> exchanges.Exchange | None:
        """Take what has come of a head; return the request if it is whole. Raises Refused, Gone, OSError."""
        while (end := self._came.find(END_OF_HEAD)) < 0:
            if len(self._came) > HEAD_LIMIT:
                raise exchanges.Refused(exchanges.TOO_LONG)
            try:
                piece = self.sock.recv(deadlines.RECORD)
            except _LATER:
                if self._came and self.state is not State.HEAD:
                    self.enter(State.HEAD, self.limits.head)
                return None
            if not piece:
                raise Gone
            self._came += piece
        end += len(END_OF_HEAD)
        if end > HEAD_LIMIT:
            raise exchanges.Refused(exchanges.TOO_LONG)
        head, self._came = self._came[:end], self._came[end:]
        self.exchange = self.reading.read(head)
        return self.exchange

    def expect(self, exchange: exchanges.Exchange) -> None:
        """Begin to take the body of a request. Raises OSError."""
        self._came = exchange.fill(self._came)
        if exchange.expectant and exchange.filled < exchange.length:
            self.sock.send(exchanges.CONTINUE)

    def read_body(self, exchange: exchanges.Exchange) -> bool:
        """Take what has come of the body; return whether it is whole. Raises Gone and OSError."""
        if exchange.filled == exchange.length:
            return True
        before = exchange.filled
        with exchange.missing() as view:
            while len(view) > exchange.filled - before < TURN:
                try:
                    received = self.sock.recv_into(view[exchange.filled - before :])
                except _LATER:
                    break
                if not received:
                    raise Gone(cut=True)
                exchange.filled += received
        return exchange.filled == exchange.length

    def has_come(self, seconds: float) -> bool:
        """Return whether something has come, or the end, after waiting so long at most."""
        if self._came or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()):
            return True
        poller = select.poll()
        poller.register(self.sock, select.POLLIN)
        return bool(poller.poll(max(0.0, seconds) * 1000))

    def send(self, head: bytes, data: bytes) -> bool:
        """Begin to send a head and what belongs to it; return whether all of it is sent. Raises OSError."""
        body = memoryview(data)
        # The beginning of the body goes into the record of the head: in one of its own, the head would wake
        # the client for nothing.
        room = max(0, deadlines.RECORD - len(head))
        self._sending.append(memoryview(head + body[:room]))
        if len(body) > room:
            self._sending.append(body[room:])
            self._cork(True)
        return self.flush()

    def flush(self) -> bool:
        """Send what waits; return whether all of it is sent. Raises OSError."""
        while self._sending:
            piece = self._sending[0]
            try:
                sent = self.sock.send(piece)
            except _LATER:
                return False
            if sent < len(piece):
                self._sending[0] = piece[sent:]
                continue
            self._sending.popleft()
        if self._corked:
            self._cork(False)
        return True

    @property
    def sending(self) -> bool:
        """Whether a part of the answer waits to be sent."""
        return bool(self._sending)

    def part(self) -> None:
        """End the connection behind its answer, so that the client can read it before it notices."""
        self.enter(State.PARTING, self.limits.parting)
        with contextlib.suppress(OSError, ValueError):
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.unwrap()
        with contextlib.suppress(OSError, ValueError):
            socket.socket.shutdown(self.sock, socket.SHUT_WR)

    def drain(self) -> bool:
        """Skip what the client still sends; return whether that was all."""
        taken = 0
        try:
            while taken < TURN:
                piece = socket.socket.recv(self.sock, PIECE)
                if not piece:
                    return True
                taken += len(piece)
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            return True
        self._drained += taken
        return self._drained > DRAIN_LIMIT

    def drop(self) -> None:
        """Close at once. What came is read first: left unread, it would turn a sent alert into a reset."""
        with contextlib.suppress(OSError, ValueError):
            socket.socket.shutdown(self.sock, socket.SHUT_WR)
            while socket.socket.recv(self.sock, PIECE):
                pass
        self.close()

    def close(self) -> None:
        """Close without waiting."""
        util.close(self.sock)

    def _cork(self, held: bool) -> None:
        """Let the kernel hold back what does not fill a packet, or send it; where it can (Linux).

        Each record is a write of its own: without this, each would wake the client.
        """
        self._corked = held
        if CORK is not None and self.sock.family != socket.AF_UNIX:
            self.sock.setsockopt(socket.IPPROTO_TCP, CORK, held)
