"""Runs TLS handshakes one at a time, and for at most a third of one core.

A handshake takes more processor time than most calls, and any client that reaches the port can cause one,
even if its role allows no call. The verbs have threads of their own, but no cores of their own.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import structlog

from app import telemetry

REST = 2.0
"""Seconds of rest for each second of processor time."""

log = structlog.get_logger(__name__)


class Client(Protocol):
    """A connection, as far as the order of handshakes depends on it."""

    @property
    def client(self) -> object:
        """The address and port of the client; of a Unix socket, its path."""
        ...


T = TypeVar("T", bound=Client)


class Handshakes(Generic[T]):
    """A queue of handshakes and the thread that carries them out; thread-safe.

    Addresses take turns: a client with many connections does not delay the first one of another address.
    """

    def __init__(
        self,
        step: Callable[[T], None],
        *,
        used: Callable[[], float] = time.thread_time,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        """``step`` continues the handshake of a connection without waiting for its client.

        ``used`` returns the seconds of processor time of the thread.
        """
        self._step = step
        self._used = used
        self._rest = rest
        self._waiting: dict[object, deque[T]] = {}
        """Address -> its connections; the address whose turn is next comes first."""
        self._changed = threading.Condition()

    def start(self) -> telemetry.loops.Loop:
        """Start the thread; without it no client connects any more, so /livez monitors it."""
        return telemetry.loops.Loop("handshakes", self._run).start()

    def submit(self, conn: T) -> None:
        """Queue the next step of a handshake."""
        with self._changed:
            self._waiting.setdefault(_address(conn), deque()).append(conn)
            self._changed.notify()

    def run_one(self) -> None:
        """Wait for a handshake, carry out its step, and rest."""
        conn = self._next()
        began = self._used()
        try:
            self._step(conn)
        except Exception:
            log.exception("a handshake failed")
        self._rest(REST * (self._used() - began))

    def _run(self) -> None:
        while True:
            self.run_one()

    def _next(self) -> T:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            address = next(iter(self._waiting))
            queued = self._waiting.pop(address)
            conn = queued.popleft()
            if queued:
                self._waiting[address] = queued
            return conn


def _address(conn: Client) -> object:
    client = conn.client
    return client[0] if isinstance(client, tuple) else client
