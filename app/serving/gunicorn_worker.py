"""A gunicorn worker whose event loop does all client I/O, so that threads only process requests.

The loop reads heads and bodies without blocking and enforces every deadline (`connections`). The caller is
authorized as soon as the head has arrived; an unauthorized caller gets a response and is disconnected. A
request gets a thread when it is complete: verbs and requests to the introspection API use separate pools.
The loop sends the rest of a response that the client does not read at once.
"""

import functools
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import structlog
from gunicorn.workers import gthread

from app.serving import introspection, ports, priority, replies, thread_pools
from app.serving.access import authorization
from app.serving.http import bodies, conn_metrics, connections, deadlines, fast_path, streams, wait_set
from app.serving.tls import handshakes

SWEEP_SECONDS = 0.25
EVICTED_SHARE = 4
"""The inverse of the share of all connections that is evicted at once: ranking them takes milliseconds."""
LINGER_SECONDS = 0.05
INTROSPECTION_THREADS, INTROSPECTION_QUEUE = 4, 16
"""Concurrent requests to the introspection API by default, and the length of their queue."""
FAULT = bodies.RequestRefusal(500, "InternalError", "internal error: see the server's log")

Step = Callable[[connections.Connection], None]
log = structlog.get_logger(__name__)


class ExtenderWorker(gthread.ThreadWorker):
    """A worker whose threads never wait for clients. `meter` counts connections by outcome."""

    meter: conn_metrics.ConnectionMetrics
    limits: deadlines.Deadlines
    verb_limiter: bodies.BodyLimiter
    other_limiter: bodies.BodyLimiter
    serves_introspection = False
    """This worker serves the introspection API for the other workers, not clients."""
    _next_sweep = 0.0

    def init_process(self) -> None:
        """Initialize the worker after the fork, and serve."""
        served: Any = self.app
        self.meter, self.limits = served.meter, served.limits
        self.verb_limiter, self.other_limiter = served.verb_limiter, served.other_limiter
        self.meter.connections = lambda: self.nr_conns
        self._lingerers = deque[None]((None,) * max(1, self.cfg.threads // 2))
        self._handshakes = handshakes.Handshakes(self._handshake)
        self._handshakes.start()
        threads: int = served.introspection_threads
        self._introspection_pool = thread_pools.ThreadPool(threads, "introspection")
        self._places = replies.ReplyPlaces(threads + INTROSPECTION_QUEUE)
        self._queued = wait_set.MemoryQueue()
        super().init_process()

    def init_signals(self) -> None:
        """Ignore SIGHUP: at one for the whole process group the master ends its workers in order."""
        super().init_signals()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def get_thread_pool(self) -> thread_pools.ThreadPool:
        """The threads of verbs."""
        return thread_pools.ThreadPool(self.cfg.threads, "verb")

    def run(self) -> None:
        """Serve until the worker is stopped or its master has exited."""
        if not self.serves_introspection:
            self._waiting = wait_set.WaitSet(self.poller, self._on_event)
            super().run()
            return
        for listener in self.sockets:
            listener.close()
        priority.lower()
        served: Any = self.app
        introspection.IntrospectionServer(served.port.listener, cast(Any, self.wsgi)).run(self._keep_running)

    def _keep_running(self) -> bool:
        self.notify()
        return self.alive and self.is_parent_alive()

    # -- in the loop: connections ----------------------------------------------------------

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection and register it with the poller."""
        accepted = ports.accept(listener)
        if accepted is None:
            return
        connection, client = accepted
        try:
            conn = connections.Connection(self.cfg, connection, client, listener.getsockname(), self.limits)
            self._waiting.watch(conn, selectors.EVENT_READ)
            self.nr_conns += 1
        except OSError:
            connection.close()

    def _end(self, conn: connections.Connection) -> None:
        self._waiting.forget(conn)
        self._places.release(conn)
        self._release(conn)
        self.nr_conns -= 1
        conn.close()

    def _release(self, conn: connections.Connection) -> None:
        """Discard the current request of a connection and its memory. Thread-safe."""
        exchange, conn.exchange = conn.exchange, None
        if exchange is not None and exchange.limiter is not None:
            exchange.limiter.release(exchange.length)
            self._queued.freed()

    def _on_event(self, conn: connections.Connection, _: object) -> None:
        """Continue with a connection that is ready."""
        match conn.state:
            case connections.State.HANDSHAKE:
                self._waiting.forget(conn)
                self._handshakes.submit(conn)
            case connections.State.SENDING:
                self._guarded(conn, self._reply)
            case connections.State.CLOSING:
                if conn.drain():
                    self._end(conn)
            case _:
                self._guarded(conn, self._proceed)

    def _guarded(self, conn: connections.Connection, step: Step) -> None:
        """Run a step of a connection and handle its errors."""
        try:
            step(conn)
        except fast_path.RequestRefused as refused:
            self._refuse(conn, refused.refusal)
        except connections.Disconnected as gone:
            if gone.cut:
                self._refuse(conn, bodies.CUT)
            else:
                self._end(conn)
        except (OSError, ValueError) as error:
            log.debug("client disconnected", reason=str(error))
            self._end(conn)

    def _proceed(self, conn: connections.Connection) -> None:
        """Read the available part of a request; dispatch it once it is complete."""
        if self._read(conn) and conn.exchange is not None:
            self._dispatch(conn, conn.exchange)
            return
        if not self.alive and conn.state is connections.State.IDLE:
            conn.deadline = min(conn.deadline, time.monotonic() + self.limits.stopping)
        if conn.state is connections.State.QUEUED:
            self._queued.add(conn)
            self._waiting.watch(conn, 0)
        else:
            self._waiting.watch(conn, selectors.EVENT_READ)

    def _dispatch(self, conn: connections.Connection, exchange: fast_path.Exchange) -> None:
        self._waiting.forget(conn)
        conn.state = connections.State.WORKING
        if exchange.verb:
            self.tpool.submit(self._work, conn)
        elif self._places.take(conn):
            self._introspection_pool.submit(self._work, conn)
        else:
            self.meter.busy()
            # A client that retries at once is not read before its Retry-After has passed.
            conn.pause = float(bodies.RETRY_SECONDS)
            self._refuse(conn, bodies.BUSY, keep_alive=self._keeps_alive(conn, exchange))

    def _refuse(
        self, conn: connections.Connection, refusal: bodies.RequestRefusal, *, keep_alive: bool = False
    ) -> None:
        """Send a refusal without calling the application."""
        conn.closing = not keep_alive
        try:
            conn.send(*fast_path.refusal_response(refusal, conn.exchange, keep_alive=keep_alive))
            self._release(conn)
            self._reply(conn)
        except (OSError, ValueError):
            self._end(conn)

    def _reply(self, conn: connections.Connection) -> None:
        """Send the rest of a response, then continue with the connection. Raises OSError."""
        if not conn.flush():
            if conn.state is not connections.State.SENDING:
                conn.enter(connections.State.SENDING, self.limits.answer)
            self._waiting.watch(conn, selectors.EVENT_WRITE)
            return
        self._places.release(conn)
        if conn.closing:
            conn.shutdown()
            self._waiting.watch(conn, selectors.EVENT_READ)
        elif conn.pause:
            conn.enter(connections.State.PAUSED, conn.pause)
            conn.pause = 0.0
            self._waiting.watch(conn, 0)
        else:
            self._next_request(conn)

    def _next_request(self, conn: connections.Connection) -> None:
        conn.enter(connections.State.IDLE, self.limits.idle)
        self._guarded(conn, self._proceed)

    def _request_done(self, conn: connections.Connection, failure: Exception | None) -> None:
        """Continue with a connection after a thread has processed its request."""
        self._guarded(conn, functools.partial(self._resume, failure))

    def _resume(self, failure: Exception | None, conn: connections.Connection) -> None:
        if failure is not None:
            raise failure
        if conn.state in (connections.State.STREAMING, connections.State.CLOSING):
            self._places.release(conn)
            return  # A short stream has ended already.
        if conn.exchange is None:
            self._reply(conn)
        else:
            self._proceed(conn)

    # -- in the loop or in a thread --------------------------------------------------------

    def _read(self, conn: connections.Connection) -> bool:
        """Read the available part of a request; return whether it is complete.

        Raises RequestRefused, Disconnected and OSError.
        """
        exchange = conn.exchange
        if exchange is None:
            exchange = conn.read_head()
            if exchange is None:
                return False
            admitted = cast(authorization.Middleware, self.wsgi).admit(exchange.environ)
            if isinstance(admitted, bodies.RequestRefusal):
                raise fast_path.RequestRefused(admitted)
            exchange.verb, exchange.length = admitted.verb, admitted.length
            conn.enter(connections.State.QUEUED, self.limits.queued)
        if conn.state is connections.State.QUEUED:
            if exchange.length and not self._reserve(exchange):
                return False
            conn.enter(connections.State.BODY, self.limits.body)
            conn.expect(exchange)
        return conn.read_body(exchange)

    def _reserve(self, exchange: fast_path.Exchange) -> bool:
        """Reserve memory for a body; return whether it was available.

        Only verbs wait for memory: raises RequestRefused for other requests.
        """
        limiter = self.verb_limiter if exchange.verb else self.other_limiter
        if limiter.acquire(exchange.length):
            exchange.limiter = limiter
        elif not exchange.verb:
            self.meter.busy()
            raise fast_path.RequestRefused(bodies.BUSY)
        return exchange.limiter is not None

    # -- in a thread -----------------------------------------------------------------------

    def _handshake(self, conn: connections.Connection) -> None:
        failure: Exception | None = None
        done = False
        try:
            done = conn.handshake()
            if done:
                conn.identified(*cast(authorization.Middleware, self.wsgi).identify(conn.sock))
                self.meter.identified(conn.client, conn.sock, scheduler=conn.scheduler)
        except (OSError, ValueError) as error:
            failure = error
        self.method_queue.defer(self._handshake_done, conn, done, failure)

    def _handshake_done(self, conn: connections.Connection, done: bool, failure: Exception | None) -> None:
        """Continue after a step of the handshake. Runs in the loop."""
        if failure is not None:
            self.meter.refused(conn.client, failure)
            self.nr_conns -= 1
            conn.abort()
        elif done:
            self.meter.count("accepted")
            self._guarded(conn, self._proceed)
        elif conn.deadline <= time.monotonic():
            # The sweep alone could miss a slow client, whose connection may always be in a thread.
            self._expire(conn)
        else:
            self._waiting.watch(conn, selectors.EVENT_READ)

    def _work(self, conn: connections.Connection) -> None:
        """Process a complete request and those that follow at once."""
        failure: Exception | None = None
        try:
            while self._respond(conn) and self._linger(conn):
                pass
        except Exception as error:
            failure = error
        self.method_queue.defer(self._request_done, conn, failure)

    def _respond(self, conn: connections.Connection) -> bool:
        """Process a request; return whether to wait for the next one here. Raises OSError."""
        exchange = conn.exchange
        if exchange is None:
            return False
        keep_alive = self._keeps_alive(conn, exchange)
        try:
            head, body = exchange.run(self.wsgi, keep_alive=keep_alive)
        except fast_path.StreamBegun as begun:
            self._release(conn)
            if streams.start(conn, begun, self._stream):
                return False
            keep_alive = False
            head, body = fast_path.refusal_response(bodies.THREADLESS, exchange)
        except Exception:
            log.exception("request failed", path=exchange.environ.get("PATH_INFO"))
            keep_alive = False
            head, body = fast_path.refusal_response(FAULT, exchange)
        self._release(conn)
        conn.closing = not keep_alive
        return conn.send(head, body) and keep_alive and exchange.verb and not thread_pools.lacking(self.tpool)

    def _stream(self, conn: connections.Connection, begun: fast_path.StreamBegun) -> None:
        if not streams.send(conn, begun, lambda: self.alive):
            self.meter.count("late")
        self.method_queue.defer(self._end, conn)

    def _keeps_alive(self, conn: connections.Connection, exchange: fast_path.Exchange) -> bool:
        """Return whether the connection stays open after this response."""
        possible = conn.scheduler or self.nr_conns <= self.max_keepalived
        return exchange.keep_alive and self.alive and possible and time.monotonic() < conn.ends

    def _linger(self, conn: connections.Connection) -> bool:
        """Wait briefly for the next call; return whether it has arrived completely.

        kube-scheduler requests scores right after filtering, and that call can stay in this thread. At most
        half of the threads wait, for LINGER_SECONDS. Raises RequestRefused, Disconnected and OSError.
        """
        try:
            self._lingerers.pop()  # As of a semaphore, in a tenth of the time.
        except IndexError:
            return False
        try:
            conn.enter(connections.State.IDLE, self.limits.idle)
            end = time.monotonic() + LINGER_SECONDS
            while self.alive and conn.wait_readable(end - time.monotonic()):
                if self._read(conn):
                    return conn.exchange is not None and conn.exchange.verb
                if conn.state is connections.State.QUEUED or time.monotonic() >= end:
                    break
            return False
        finally:
            self._lingerers.append(None)

    # -- in the loop: time -----------------------------------------------------------------

    def wait_for_and_dispatch_events(self, timeout: float | None) -> None:
        """Continue with calls that have memory now, then wait for events, at most until the next sweep."""
        for conn in self._queued.ready():
            self._guarded(conn, self._proceed)
        super().wait_for_and_dispatch_events(min(timeout or SWEEP_SECONDS, SWEEP_SECONDS))

    def murder_pending(self) -> None:
        """Handle the connections whose deadline has passed, and evict some if no more can be accepted."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_SECONDS
        for conn in self._waiting:
            if conn.deadline <= now:
                self._expire(conn)
        if self.nr_conns >= self.worker_connections:
            evicted = self._waiting.to_evict(1 + self.worker_connections // EVICTED_SHARE)
            for conn in evicted:
                self._end(conn)
            if evicted:
                self.meter.evicted(len(evicted), evicted[0].holder)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close all connections if `force`; otherwise `murder_pending` handles them."""
        for conn in self._waiting if force else ():
            self._end(conn)

    def _cap_keepalive(self, _: float) -> None:
        """Limit the deadline of idle connections: the worker is stopping."""
        self._waiting.cap(time.monotonic() + self.limits.stopping)

    def _expire(self, conn: connections.Connection) -> None:
        """Handle a connection whose deadline has passed."""
        match conn.state:
            case connections.State.PAUSED:
                self._next_request(conn)
            case connections.State.QUEUED:
                self._refuse(conn, bodies.CROWDED)
            case connections.State.BODY:
                self.meter.count("late")
                self._refuse(conn, bodies.LATE)
            case connections.State.HANDSHAKE | connections.State.HEAD | connections.State.SENDING:
                self.meter.count("late")
                self._end(conn)
            case _:
                self._end(conn)
