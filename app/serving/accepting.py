"""gunicorn's threaded worker, made to keep its threads for requests.

A connection is first watched by the poller, and comes to a thread only when there is something to take from
it (`connections`). Deadlines are held by the loop. Closing in good manners is done in threads, never in the
loop. What happens to a request whose head is there is gunicorn's own.
"""

import errno
import functools
import selectors
import socket
import ssl
import threading
import time
from concurrent import futures
from typing import Any

import structlog
from gunicorn import http
from gunicorn.http import errors as http_errors
from gunicorn.workers import gthread

from app.serving import channels, connections, deadlines, exchanges, metering

SWEEP_SECONDS = 0.25
LINGER_SECONDS = 0.05
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = structlog.get_logger(__name__)


class Worker(gthread.ThreadWorker):
    """A threaded worker whose threads wait for nobody. `meter` counts what came of the connections."""

    meter: metering.Meter
    limits: deadlines.Deadlines
    _next_sweep = 0.0

    def init_process(self) -> None:
        """Begin to serve, in the process that was forked for it."""
        found = getattr(self.app, "meter", None)
        self.meter = found if isinstance(found, metering.Meter) else metering.Meter()
        limits = getattr(self.app, "limits", None)
        self.limits = limits if isinstance(limits, deadlines.Deadlines) else deadlines.Deadlines()
        self.meter.connections = lambda: self.nr_conns
        self._lingering = threading.BoundedSemaphore(max(1, self.cfg.threads // 2))
        super().init_process()

    def accept(self, listener: socket.socket) -> None:
        """Take a connection and wait, without a thread, for what it says."""
        try:
            accepted, client = listener.accept()
        except OSError as error:
            self._not_accepted(error)
            return
        self.nr_conns += 1
        try:
            server = listener.getsockname()
            self._watch(connections.Connection(self.cfg, accepted, client, server, self.limits))
        except OSError:
            self.nr_conns -= 1
            accepted.close()

    def _not_accepted(self, error: OSError) -> None:
        if error.errno in OUT_OF_RESOURCES:
            # The listener stays readable: without a rest this loop would do nothing but fail.
            log.error("a connection cannot be accepted", reason=error.strerror)
            time.sleep(SWEEP_SECONDS)
        elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
            raise error

    def _watch(self, conn: connections.Connection) -> None:
        conn.sock.setblocking(False)
        conn.timeout = conn.deadline
        self.poller.register(
            conn.sock, selectors.EVENT_READ, functools.partial(self.on_pending_socket_readable, conn)
        )
        self.pending_conns.append(conn)

    def handle(self, conn: gthread.TConn) -> bool:
        """Take what has come, and serve the request if it is whole. Runs in a thread of the pool."""
        if not isinstance(conn, connections.Connection):
            return False
        while self._advance(conn):
            if not self._serve(conn):
                conn.part()
                return False
            if not self._linger(conn):
                return True
        return not conn.waiting and conn.initialized and conn.sock.fileno() >= 0

    def _serve(self, conn: connections.Connection) -> bool:
        """Answer the request whose head has come; return whether another one may follow."""
        room = len(self.keepalived_conns) < self.max_keepalived
        lasting = self.alive and room and time.monotonic() < conn.ends
        exchange = exchanges.taken(conn) if lasting else None
        if exchange is None:
            return super().handle(conn)
        try:
            return exchange.run(self.wsgi)
        except OSError as error:
            log.debug("the client is gone", reason=str(error))
        except Exception as error:
            self.handle_error(None, conn.sock, conn.client, error)
        return False

    def _linger(self, conn: connections.Connection) -> bool:
        """Wait a moment for the next request; return whether something has come.

        kube-scheduler asks for scores right after it was told the nodes: that call can stay in this thread.
        At most half of the threads are spent on that, and only for an instant.
        """
        if not self.alive or not self._lingering.acquire(blocking=False):
            return False
        try:
            conn.sock.setblocking(False)
            return conn.has_come(LINGER_SECONDS)
        finally:
            self._lingering.release()

    def _advance(self, conn: connections.Connection) -> bool:
        """Return whether a whole head is there. A connection that is of no use any more is closed."""
        greeted = conn.initialized
        try:
            progress = conn.advance()
        except http_errors.LimitRequestHeaders as error:
            conn.waiting = False
            conn.sock.settimeout(conn.limits.parting)
            self.handle_error(None, conn.sock, conn.client, error)
            conn.part()
            return False
        except (OSError, ValueError) as error:
            conn.waiting = False
            if not greeted:
                self.meter.refused(conn.client, _reason(error))
            conn.drop()
            return False
        if conn.initialized and not greeted:
            self.meter.count("accepted")
        if progress is connections.Progress.GONE:
            conn.drop()
        return progress is connections.Progress.READY

    def handle_request(self, req: http.Request, conn: gthread.TConn) -> bool:
        """Serve one request."""
        if isinstance(conn, connections.Connection):
            if time.monotonic() >= conn.ends:
                req.force_close()
            if req.body is not None:
                # gunicorn declares its own class there, and asks of it only what this one has as well.
                replaced: Any = deadlines.Payload.of(req.body, conn.reader)
                req.body = replaced
                conn.sock.settimeout(conn.limits.answer)
        if not isinstance(conn.sock, channels.Channel):
            return super().handle_request(req, conn)
        conn.sock.answering = True
        try:
            kept = super().handle_request(req, conn)
            conn.sock.finish()
        finally:
            conn.sock.answering = False
        return kept

    def finish_request(self, conn: gthread.TConn, fs: futures.Future[bool]) -> None:
        """Put a connection back where its next bytes are waited for, or forget it. Runs in the loop."""
        if not isinstance(conn, connections.Connection) or fs.cancelled() or fs.exception() is not None:
            super().finish_request(conn, fs)
        elif conn.waiting and conn.deadline <= time.monotonic():
            # The loop alone would miss who drips: when it looks, such a connection may always be in a thread.
            self._end_late(conn)
        elif conn.waiting:
            try:
                self._watch(conn)
            except (OSError, ValueError):
                self.nr_conns -= 1
                conn.close()
        elif fs.result() and conn.holds_more():
            self.enqueue_req(conn)
        else:
            super().finish_request(conn, fs)

    def wait_for_and_dispatch_events(self, timeout: float | None) -> None:
        """Wait for events, but not so long that a deadline is overlooked."""
        if self.pending_conns:
            timeout = min(timeout or SWEEP_SECONDS, SWEEP_SECONDS)
        super().wait_for_and_dispatch_events(timeout)

    def murder_pending(self) -> None:
        """Close the connections whose deadline has passed."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_SECONDS
        late = [conn for conn in self.pending_conns if conn.timeout is not None and conn.timeout <= now]
        for conn in late:
            self.pending_conns.remove(conn)
            self.poller.unregister(conn.sock)
            self._end_late(conn)

    def _end_late(self, conn: gthread.TConn) -> None:
        self.nr_conns -= 1
        self.meter.count("late")
        conn.close()


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
