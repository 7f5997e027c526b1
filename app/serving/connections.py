"""One client's connection, up to the point where a whole request head is there.

gunicorn does the handshake and reads the head in a thread of its pool, which waits as long as the client
likes: a few sockets that send half of a ClientHello stop it, and need no certificate for it. Here a thread
looks at a connection only when something has come, takes what there is, and lets go of it. What is not
complete by its deadline is closed.
"""

import contextlib
import enum
import math
import select
import socket
import ssl
import time
import wsgiref.types

from gunicorn import config, http, sock, util
from gunicorn.http import errors as http_errors
from gunicorn.workers import gthread

from app.serving import deadlines

HEAD_LIMIT = 64 * 1024
END_OF_HEAD = b"\r\n\r\n"

DRAIN_LIMIT = 16 * 1024 * 1024
"""Bytes that are taken from a client after its last answer. What it had under way when it could not know yet
that it was refused fits in: left unread, it would turn the answer into a reset."""

PIECE = 64 * 1024


class Progress(enum.Enum):
    """How far a connection has come: READY has a whole head, WAITING a part, IDLE nothing, GONE hung up."""

    READY = enum.auto()
    WAITING = enum.auto()
    IDLE = enum.auto()
    GONE = enum.auto()


class Connection(gthread.TConn):
    """A connection with the deadline (monotonic) of the part that it is in; infinite while it is idle.

    After `ends` (monotonic) no request of it is the last but one. `same` is what the environments of its
    requests have in common, once somebody asked for it (`exchanges`).
    """

    waiting = False
    reader: deadlines.Reader

    def __init__(
        self,
        cfg: config.Config,
        accepted: socket.socket,
        client: tuple[str, int],
        server: tuple[str, int],
        limits: deadlines.Deadlines,
    ) -> None:
        super().__init__(cfg, accepted, client, server)
        self.limits = limits
        self.addresses = client, server
        self.same: wsgiref.types.WSGIEnvironment = {}
        # Without it, an answer in two writes waits for the client's delayed acknowledgement: 40 ms a call.
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = time.monotonic()
        self.deadline = now + limits.handshake
        self.ends = now + limits.age

    def advance(self) -> Progress:
        """Take what has come, without waiting.

        Raises ssl.SSLError, OSError and gunicorn's LimitRequestHeaders.
        """
        if not self.initialized and not self._greet():
            return Progress.WAITING
        progress = self._take_head()
        self.waiting = progress is Progress.WAITING
        return progress

    def _greet(self) -> bool:
        """Go on with the handshake; return whether it is done."""
        self.waiting = True
        if self.cfg.is_ssl:
            if not isinstance(self.sock, ssl.SSLSocket):
                self.sock = sock.ssl_wrap_socket(self.sock, self.cfg)
            try:
                self.sock.do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
        self.reader = deadlines.Reader(self.sock)
        self.reader.answer_seconds = self.limits.answer
        parser = http.RequestParser(self.cfg, self.sock, self.client)
        parser.unreader = self.reader
        self.parser = parser
        self.initialized = True
        self.deadline = math.inf
        return True

    def _take_head(self) -> Progress:
        head = self.reader.take_buffered()
        while END_OF_HEAD not in head:
            if len(head) > HEAD_LIMIT:
                raise http_errors.LimitRequestHeaders(f"more than {HEAD_LIMIT} bytes")
            try:
                piece = self.sock.recv(deadlines.RECORD)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return self._keep(head)
            if not piece:
                return Progress.GONE
            head += piece
        self.reader.unread(head)
        self.deadline = math.inf
        self.reader.deadline = time.monotonic() + self.limits.body
        return Progress.READY

    def _keep(self, head: bytes) -> Progress:
        if not head:
            return Progress.IDLE
        self.reader.unread(head)
        if self.deadline == math.inf:
            self.deadline = time.monotonic() + self.limits.head
        return Progress.WAITING

    def holds_more(self) -> bool:
        """Return whether bytes of a next request are already here, where no poller sees them."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def has_come(self, seconds: float) -> bool:
        """Return whether something has come, or the end, after waiting so long at most."""
        if self.holds_more() or self.reader.buf.tell():
            return True
        poller = select.poll()
        poller.register(self.sock, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def part(self) -> None:
        """Close after an answer, so that the client can read it before it notices.

        Waits a little: not in the loop.
        """
        with contextlib.suppress(OSError, ValueError):
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.setblocking(False)
                self.sock.unwrap()
        util.close_graceful(self.sock, timeout=self.limits.parting, max_drain=DRAIN_LIMIT)

    def drop(self) -> None:
        """Close at once. What came is read first: left unread, it would turn a sent alert into a reset."""
        with contextlib.suppress(OSError, ValueError):
            self.sock.setblocking(False)
            socket.socket.shutdown(self.sock, socket.SHUT_WR)
            while socket.socket.recv(self.sock, PIECE):
                pass
        util.close(self.sock)

    def close(self, graceful: bool = False) -> None:
        """Close without waiting: this is called in the loop that serves everybody."""
        util.close(self.sock)
