"""Non-blocking I/O of one client connection.

gunicorn's threads block on slow clients during the handshake, while reading requests and while writing
responses. Here each step transfers what is possible without blocking; `state` and `deadline` describe what
the connection waits for and until when.
"""

import contextlib
import enum
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Collection

from gunicorn import config, sock, util

from app.serving.http import deadlines, fast_path
from app.serving.tls import role_names

HEAD_LIMIT = 64 * 1024
END_OF_HEAD = b"\r\n\r\n"

DRAIN_LIMIT = 16 * 1024 * 1024
"""Maximum number of bytes discarded after the last response. Covers what a client had in flight before it
could read its refusal: unread data would turn the response into a reset."""

READ_QUANTUM = 1024 * 1024
"""Maximum number of bytes read from one connection before others are served."""

CHUNK_SIZE = 64 * 1024
CORK = getattr(socket, "TCP_CORK", None)
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class State(enum.Enum):
    """What a connection waits for."""

    HANDSHAKE = enum.auto()
    IDLE = enum.auto()
    HEAD = enum.auto()
    QUEUED = enum.auto()
    """Waits for memory for its body."""
    BODY = enum.auto()
    WORKING = enum.auto()
    """Waits for the application."""
    STREAMING = enum.auto()
    """A thread sends it a stream."""
    SENDING = enum.auto()
    """Waits until the client reads the response."""
    PAUSED = enum.auto()
    """Waits until the client may send its next request."""
    CLOSING = enum.auto()


class Disconnected(Exception):
    """The client closed the connection; `cut`: in the middle of a body."""

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__()
        self.cut = cut


class Connection:
    """A connection with its state and the state's deadline (monotonic).

    `since` (monotonic) is when it entered its state. After `ends` (monotonic) the next response closes the
    connection. `mask` is the poller's event mask.
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
        self.mask = 0
        self.exchange: fast_path.Exchange | None = None
        self.closing = False
        """The current response is the last one."""
        self.pause = 0.0
        """Seconds to wait after the current response before the next request is read."""
        self.holder: object = client[:1]
        """Whose connection it is: the client's address, and the caller's name once that is known."""
        self.scheduler = False
        """The caller has the role of the scheduler."""
        self._server = server
        self._poller: select.poll | None = None
        self._received = b""
        self._sending: deque[memoryview] = deque()
        self._corked = False
        self._drained = 0
        accepted.setblocking(False)
        # Without TCP_NODELAY, a response in two writes waits for the client's delayed ACK: 40 ms per call.
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.enter(State.HANDSHAKE, limits.handshake)
        self.ends = self.since + limits.age

    def enter(self, state: State, seconds: float) -> None:
        """Enter a state that ends after `seconds` at the latest."""
        self.state = state
        self.since = time.monotonic()
        self.deadline = self.since + seconds

    def handshake(self) -> bool:
        """Continue the handshake; return whether it is complete. Raises OSError."""
        if self.cfg.is_ssl:
            if not isinstance(self.sock, ssl.SSLSocket):
                self.sock = sock.ssl_wrap_socket(self.sock, self.cfg)
            try:
                self.sock.do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
        self.reading = fast_path.RequestReader(self.cfg, self.sock, self.client, self._server, self.ends)
        self.enter(State.IDLE, self.limits.idle)
        return True

    def identified(self, name: str, roles: Collection[str]) -> None:
        """Set the caller, after the handshake; one without a role may call nothing, and gets little time."""
        self.holder, self.scheduler = name, role_names.SCHEDULER in roles
        if not roles:
            self.enter(State.IDLE, self.limits.head)

    def read_head(self) -> fast_path.Exchange | None:
        """Read the available part of a head; return the request once it is complete.

        Raises RequestRefused, Disconnected and OSError.
        """
        while (end := self._received.find(END_OF_HEAD)) < 0:
            if len(self._received) > HEAD_LIMIT:
                raise fast_path.RequestRefused(fast_path.TOO_LONG)
            try:
                piece = self.sock.recv(deadlines.RECORD)
            except _WOULD_BLOCK:
                if self._received and self.state is not State.HEAD:
                    self.enter(State.HEAD, self.limits.head)
                return None
            if not piece:
                raise Disconnected
            self._received += piece
        end += len(END_OF_HEAD)
        if end > HEAD_LIMIT:
            raise fast_path.RequestRefused(fast_path.TOO_LONG)
        head, self._received = self._received[:end], self._received[end:]
        self.exchange = self.reading.read(head)
        return self.exchange

    def expect(self, exchange: fast_path.Exchange) -> None:
        """Start to read the body of a request. Raises OSError."""
        self._received = exchange.fill(self._received)
        if exchange.expects_continue and exchange.received < exchange.length:
            self.sock.send(fast_path.CONTINUE)

    def read_body(self, exchange: fast_path.Exchange) -> bool:
        """Read the available part of the body; return whether it is complete.

        Raises Disconnected and OSError.
        """
        if exchange.received == exchange.length:
            return True
        before = exchange.received
        with exchange.missing() as view:
            while len(view) > exchange.received - before < READ_QUANTUM:
                try:
                    received = self.sock.recv_into(view[exchange.received - before :])
                except _WOULD_BLOCK:
                    break
                if not received:
                    raise Disconnected(cut=True)
                exchange.received += received
        return exchange.received == exchange.length

    def wait_readable(self, seconds: float) -> bool:
        """Wait up to `seconds` for data or the end of the stream; return whether either arrived."""
        if self._received or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()):
            return True
        if self._poller is None:
            self._poller = select.poll()
            self._poller.register(self.sock, select.POLLIN)
        return bool(self._poller.poll(max(0.0, seconds) * 1000))

    def send(self, head: bytes, data: bytes) -> bool:
        """Start to send a response; return whether it is sent completely. Raises OSError."""
        if len(head) + len(data) <= deadlines.RECORD:
            self._sending.append(memoryview(head + data))
            return self.flush()
        body = memoryview(data)
        # The head shares a TLS record with the start of the body: a separate record would wake the client
        # early.
        space = max(0, deadlines.RECORD - len(head))
        self._sending.append(memoryview(head + body[:space]))
        if len(body) > space:
            self._sending.append(body[space:])
            self._cork(True)
        return self.flush()

    def flush(self) -> bool:
        """Send pending data; return whether all of it is sent. Raises OSError."""
        while self._sending:
            piece = self._sending[0]
            try:
                sent = self.sock.send(piece)
            except _WOULD_BLOCK:
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
        """Whether a part of the response is still pending."""
        return bool(self._sending)

    def shutdown(self) -> None:
        """Shut down the sending side, so that the client can read the response before the end."""
        self.enter(State.CLOSING, self.limits.closing)
        with contextlib.suppress(OSError, ValueError):
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.unwrap()
        with contextlib.suppress(OSError, ValueError):
            socket.socket.shutdown(self.sock, socket.SHUT_WR)

    def drain(self) -> bool:
        """Discard data that the client still sends; return whether to close."""
        taken = 0
        try:
            while taken < READ_QUANTUM:
                piece = socket.socket.recv(self.sock, CHUNK_SIZE)
                if not piece:
                    return True
                taken += len(piece)
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            return True
        self._drained += taken
        return self._drained > DRAIN_LIMIT

    def abort(self) -> None:
        """Close at once. Received data is read first: unread data would turn a TLS alert into a reset."""
        with contextlib.suppress(OSError, ValueError):
            socket.socket.shutdown(self.sock, socket.SHUT_WR)
            while socket.socket.recv(self.sock, CHUNK_SIZE):
                pass
        self.close()

    def close(self) -> None:
        """Close without waiting."""
        self.state = State.CLOSING
        util.close(self.sock)

    def _cork(self, enabled: bool) -> None:
        """Make the kernel hold back partial packets, or flush them (Linux only).

        Each TLS record is a separate write, which would otherwise wake the client.
        """
        self._corked = enabled
        if CORK is not None and self.sock.family != socket.AF_UNIX:
            self.sock.setsockopt(socket.IPPROTO_TCP, CORK, enabled)
