"""gunicorn's worker, made to keep its threads for requests.

The loop reads heads and bodies, never waiting, and holds every deadline (`connections`). Once a head is there
the application says whether the caller may make the call; who may not is answered and closed. A request gets
a thread when all of it is there: a verb one of its own, a question to the introspection one of a few. What a
client does not take of its answer at once is sent by the loop.
"""

import errno
import functools
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent import futures
from typing import Any, cast

import structlog
from gunicorn.workers import gthread

from app.serving import bodies, connections, deadlines, exchanges, gates, metering, viewing

SWEEP_SECONDS = 0.25
LINGER_SECONDS = 0.05
STOPPING_SECONDS = 2.0
"""How long a worker that stops keeps idle connections, for a request that is on its way."""
GREETERS = 4
"""Threads for handshakes, each step of which costs a millisecond: verbs must not stand behind them."""
QUESTIONS, WAITING = 4, 16
"""Questions to the introspection that are worked on at a time, and those that may wait."""
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
FAULT = bodies.Refusal(500, "InternalError", "a fault of the server; its log has the details")

Step = Callable[[connections.Connection], None]

log = structlog.get_logger(__name__)


class Worker(gthread.ThreadWorker):
    """A worker whose threads wait for no client. `meter` counts what came of the connections."""

    meter: metering.Meter
    limits: deadlines.Deadlines
    turnstile: bodies.Turnstile
    viewing = False
    """It answers the questions of the others (`viewing`) instead of serving callers."""
    _next_sweep = 0.0

    def init_process(self) -> None:
        """Begin to serve, in the process that was forked for it."""
        served: Any = self.app
        self.meter, self.limits, self.turnstile = served.meter, served.limits, served.turnstile
        served.viewing = self.viewing
        self.meter.connections = lambda: self.nr_conns
        self._lingering = threading.BoundedSemaphore(max(1, self.cfg.threads // 2))
        self._greeters = futures.ThreadPoolExecutor(GREETERS, "greeting")
        self._answerers = futures.ThreadPoolExecutor(QUESTIONS, "answering")
        self._questions = 0
        self._waiting: set[connections.Connection] = set()
        self._crowded: deque[connections.Connection] = deque()
        super().init_process()

    def run(self) -> None:
        """Serve until the worker is told to stop, or its master is gone."""
        if not self.viewing:
            super().run()
            return
        for listener in self.sockets:
            listener.close()
        viewing.give_way()
        served: Any = self.app
        viewing.Answering(served.port.listener, cast(Any, self.wsgi)).run(self._goes_on)

    def _goes_on(self) -> bool:
        self.notify()
        return self.alive and self.is_parent_alive()

    # -- in the loop: connections ----------------------------------------------------------

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
            conn = connections.Connection(self.cfg, accepted, client, server, self.limits)
            self._watch(conn, selectors.EVENT_READ)
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

    def _watch(self, conn: connections.Connection, mask: int) -> None:
        """Wait for events of a connection, or with 0 only for its deadline. Raises OSError."""
        if mask != conn.mask:
            if conn.mask:
                self.poller.unregister(conn.sock)
            conn.mask = 0
            if mask:
                self.poller.register(conn.sock, mask, functools.partial(self._happened, conn))
            conn.mask = mask
        self._waiting.add(conn)

    def _forget(self, conn: connections.Connection) -> None:
        """Wait for nothing of a connection any more: it is somebody else's, or at its end."""
        self._waiting.discard(conn)
        if conn.mask:
            conn.mask = 0
            self.poller.unregister(conn.sock)

    def _end(self, conn: connections.Connection) -> None:
        self._forget(conn)
        self._release(conn)
        self.nr_conns -= 1
        conn.close()

    def _release(self, conn: connections.Connection) -> None:
        """Drop the request that a connection is at. Any thread may call it."""
        exchange, conn.exchange = conn.exchange, None
        if exchange is not None and exchange.placed:
            self.turnstile.leave(exchange.length)

    def _happened(self, conn: connections.Connection, _: object) -> None:
        """Go on with a connection of which the poller says that it is ready."""
        match conn.state:
            case connections.State.GREETING:
                self._forget(conn)
                self._greeters.submit(self._greet, conn)
            case connections.State.REPLYING:
                self._guarded(conn, self._reply)
            case connections.State.PARTING:
                if conn.drain():
                    self._end(conn)
            case _:
                self._guarded(conn, self._proceed)

    def _guarded(self, conn: connections.Connection, step: Step) -> None:
        """Take a step with a connection, and do what its failure asks for."""
        try:
            step(conn)
        except exchanges.Refused as refused:
            self._refuse(conn, refused.refusal)
        except connections.Gone as gone:
            if gone.cut:
                self._refuse(conn, bodies.CUT)
            else:
                self._end(conn)
        except (OSError, ValueError) as error:
            log.debug("the client is gone", reason=str(error))
            self._end(conn)

    def _proceed(self, conn: connections.Connection) -> None:
        """Take what has come of a request, and have it answered if it is whole."""
        ready = self._read(conn)
        if ready and conn.exchange is not None:
            self._dispatch(conn, conn.exchange)
            return
        if not self.alive and conn.state is connections.State.IDLE:
            conn.deadline = min(conn.deadline, time.monotonic() + STOPPING_SECONDS)
        if conn.state is connections.State.CROWDED:
            self._crowded.append(conn)
            self._watch(conn, 0)
        else:
            self._watch(conn, selectors.EVENT_READ)

    def _dispatch(self, conn: connections.Connection, exchange: exchanges.Exchange) -> None:
        self._forget(conn)
        conn.state = connections.State.WORKING
        if exchange.verb:
            self.tpool.submit(self._work, conn)
        elif self._questions < QUESTIONS + WAITING:
            self._questions += 1
            conn.question = True
            self._answerers.submit(self._work, conn)
        else:
            self.meter.busy()
            # A client that asks again at once is not read before the time that it was given.
            conn.resting = float(bodies.RETRY_SECONDS)
            self._refuse(conn, bodies.BUSY, lasting=self._lasting(conn, exchange))

    def _refuse(
        self, conn: connections.Connection, refusal: bodies.Refusal, *, lasting: bool = False
    ) -> None:
        """Answer without the application."""
        self._release(conn)
        conn.closing = not lasting
        try:
            conn.send(*exchanges.refused(refusal, lasting=lasting))
            self._reply(conn)
        except (OSError, ValueError):
            self._end(conn)

    def _reply(self, conn: connections.Connection) -> None:
        """Send what is left of an answer; go on behind it. Raises OSError."""
        if not conn.flush():
            if conn.state is not connections.State.REPLYING:
                conn.enter(connections.State.REPLYING, self.limits.answer)
            self._watch(conn, selectors.EVENT_WRITE)
        elif conn.closing:
            conn.part()
            self._watch(conn, selectors.EVENT_READ)
        elif conn.resting:
            conn.enter(connections.State.PAUSED, conn.resting)
            conn.resting = 0.0
            self._watch(conn, 0)
        else:
            self._go_on(conn)

    def _go_on(self, conn: connections.Connection) -> None:
        conn.enter(connections.State.IDLE, self.limits.idle)
        self._guarded(conn, self._proceed)

    def _finished(self, conn: connections.Connection, fate: Exception | None) -> None:
        """Take a connection back from the thread that answered its request."""
        if conn.question:
            conn.question = False
            self._questions -= 1
        self._guarded(conn, functools.partial(self._take_back, fate))
        for _ in range(len(self._crowded)):
            crowded = self._crowded.popleft()
            if crowded.state is connections.State.CROWDED:
                self._guarded(crowded, self._proceed)

    def _take_back(self, fate: Exception | None, conn: connections.Connection) -> None:
        if fate is not None:
            raise fate
        if conn.exchange is None:
            self._reply(conn)
        else:
            self._proceed(conn)

    # -- in the loop or in a thread --------------------------------------------------------

    def _read(self, conn: connections.Connection) -> bool:
        """Take what has come of a request; return whether all of it is there.

        Raises Refused, Gone and OSError.
        """
        exchange = conn.exchange
        if exchange is None:
            exchange = conn.read_head()
            if exchange is None:
                return False
            admitted = cast(gates.Gate, self.wsgi).admit(exchange.environ)
            if isinstance(admitted, bodies.Refusal):
                raise exchanges.Refused(admitted)
            exchange.verb, exchange.length = admitted.verb, admitted.length
            conn.enter(connections.State.CROWDED, self.limits.crowded)
        if conn.state is connections.State.CROWDED:
            if exchange.length and not self.turnstile.enter(exchange.length):
                return False
            exchange.placed = exchange.length > 0
            conn.enter(connections.State.BODY, self.limits.body)
            conn.expect(exchange)
        return conn.read_body(exchange)

    # -- in a thread -----------------------------------------------------------------------

    def _greet(self, conn: connections.Connection) -> None:
        fate: Exception | None = None
        done = False
        try:
            done = conn.greet()
        except (OSError, ValueError) as error:
            fate = error
        self.method_queue.defer(self._greeted, conn, done, fate)

    def _greeted(self, conn: connections.Connection, done: bool, fate: Exception | None) -> None:
        """Go on behind a step of the handshake. Runs in the loop."""
        if fate is not None:
            self.meter.refused(conn.client, _reason(fate))
            self.nr_conns -= 1
            conn.drop()
        elif done:
            self.meter.count("accepted")
            self._guarded(conn, self._proceed)
        elif conn.deadline <= time.monotonic():
            # The sweep alone would miss a client that drips: its connection may always be in a thread then.
            self._late(conn)
        else:
            self._watch(conn, selectors.EVENT_READ)

    def _work(self, conn: connections.Connection) -> None:
        """Answer a request that is whole, and those that follow at once."""
        fate: Exception | None = None
        try:
            while self._answer(conn) and self._linger(conn):
                pass
        except Exception as error:
            fate = error
        self.method_queue.defer(self._finished, conn, fate)

    def _answer(self, conn: connections.Connection) -> bool:
        """Answer a request; return whether the next one may be waited for here. Raises OSError."""
        exchange = conn.exchange
        if exchange is None:
            return False
        lasting = self._lasting(conn, exchange)
        try:
            head, body = exchange.run(self.wsgi, lasting=lasting)
        except Exception:
            log.exception("a request could not be answered", path=exchange.environ.get("PATH_INFO"))
            lasting = False
            head, body = exchanges.refused(FAULT)
        self._release(conn)
        conn.closing = not lasting
        return conn.send(head, body) and lasting and exchange.verb

    def _lasting(self, conn: connections.Connection, exchange: exchanges.Exchange) -> bool:
        """Return whether the connection stays open behind this answer."""
        room = self.nr_conns <= self.max_keepalived
        return exchange.lasting and self.alive and room and time.monotonic() < conn.ends

    def _linger(self, conn: connections.Connection) -> bool:
        """Wait a moment for the next call; return whether all of it has come.

        Raises Refused, Gone and OSError.

        kube-scheduler asks for scores right after it was told the nodes: that call can stay in this thread.
        At most half of the threads are spent on that, and only for an instant.
        """
        if not self.alive or not self._lingering.acquire(blocking=False):
            return False
        try:
            conn.enter(connections.State.IDLE, self.limits.idle)
            end = time.monotonic() + LINGER_SECONDS
            while conn.has_come(end - time.monotonic()):
                if self._read(conn):
                    return conn.exchange is not None and conn.exchange.verb
                if conn.state is connections.State.CROWDED or time.monotonic() >= end:
                    break
            return False
        finally:
            self._lingering.release()

    # -- in the loop: time -----------------------------------------------------------------

    def wait_for_and_dispatch_events(self, timeout: float | None) -> None:
        """Wait for events, but not so long that a deadline is overlooked."""
        super().wait_for_and_dispatch_events(min(timeout or SWEEP_SECONDS, SWEEP_SECONDS))

    def murder_pending(self) -> None:
        """Do what is due for the connections whose deadline has passed."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_SECONDS
        for conn in [each for each in self._waiting if each.deadline <= now]:
            self._late(conn)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close all connections, if that is asked for; otherwise `murder_pending` sees to them."""
        for conn in list(self._waiting) if force else ():
            self._end(conn)

    def _cap_keepalive(self, deadline: float) -> None:
        """Close idle connections by the deadline at the latest: the worker is about to stop."""
        for conn in self._waiting:
            if conn.state is connections.State.IDLE:
                conn.deadline = min(conn.deadline, deadline)

    def _late(self, conn: connections.Connection) -> None:
        """Do what is due for a connection whose deadline has passed."""
        match conn.state:
            case connections.State.PAUSED:
                self._go_on(conn)
            case connections.State.CROWDED:
                self._refuse(conn, bodies.CROWDED)
            case connections.State.BODY:
                self.meter.count("late")
                self._refuse(conn, bodies.LATE)
            case connections.State.GREETING | connections.State.HEAD | connections.State.REPLYING:
                self.meter.count("late")
                self._end(conn)
            case _:
                self._end(conn)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
