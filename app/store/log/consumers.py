"""The consumers of a log and their positions: no entry is trimmed that a live consumer has not read.

Each consumer sends a heartbeat with its position now and then; the store's clock dates it. One that has
sent none for as long as the compactor's timeout counts as dead, and entries that it has not read may be
trimmed. Its next read then raises Trimmed, and it starts again from a checkpoint.

Once the store's clock was set, also by a failover to a server with another one, heartbeats show nothing until
each consumer has sent another: the compactor then waits for as long as its timeout. One that starts between
such a step and these heartbeats has no earlier time to compare with: it counts live consumers as dead if the
clock was set forward by more than the timeout, until each has sent its next heartbeat.
"""

import contextlib
import math
import os
import secrets
import socket
import time

import redis

from app import telemetry
from app.store import errors, keys
from app.store.server import connections

EVERY_SECONDS = 5.0
"""Time between two heartbeats."""
SOON_SECONDS = 0.5
"""The same after much was read: entries can be trimmed only once the heartbeat shows that they were read."""
_MUCH = 64
"""Entries."""
_STEP_SECONDS = 3.0
"""A difference between two clocks since the last heartbeat that drift does not explain. After a smaller step
no consumer that sends a heartbeat in EVERY_SECONDS counts as dead: the least timeout exceeds both together.
An auditor whose interval is almost the timeout may; its replay then begins again at a checkpoint."""


class Consumer:
    """One consumer as registered in the store; used by one thread at a time."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._wire = connections.Wire(client)
        self._key = names.readers
        self.identity = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(3)}"
        """Shown to operators."""
        self._due = self._soon = 0.0
        self._registered = False
        self._offset = 0
        self._ahead: tuple[float, float] | None = None
        """Between how many seconds the store's clock is ahead of the monotonic one here, by the replies since
        it was last set. A reply has the time of a moment between its request and its arrival."""
        self._possible_step = 0.0
        """Seconds by which the clock may have been set before the last reply: the later, the more."""
        self._stepped = -math.inf
        """Monotonic: the heartbeat that showed that the store's clock had been set since the one before."""

    def clock_steady_for(self, seconds: float) -> bool:
        """Whether no live consumer counts as dead after ``seconds`` because the store's clock was set.

        No heartbeat within that time has shown that it was, and the reply to the last one was early enough.
        """
        harmful = max(_STEP_SECONDS, seconds - EVERY_SECONDS)
        return self._possible_step <= harmful and time.monotonic() - self._stepped >= seconds

    def heartbeat(self, offset: int) -> None:
        """Report the position if a heartbeat is due; skipped while the store is away."""
        now = time.monotonic()
        if now >= self._due or (now >= self._soon and offset - self._offset >= _MUCH):
            with contextlib.suppress(errors.StoreAway):
                self.heartbeat_now(offset)

    def heartbeat_now(self, offset: int) -> None:
        """Report the position. Raises StoreAway."""
        now = time.monotonic()
        self._due, self._soon, self._offset = now + EVERY_SECONDS, now + SOON_SECONDS, offset
        reply = self._send(str(offset))
        self._registered = True
        self._compare(now, reply)

    def deregister(self) -> None:
        """Remove the consumer from the store."""
        if self._registered:
            self._registered, self._due = False, 0.0
            with contextlib.suppress(errors.StoreAway):
                self._send("")
        self._wire.close()

    def _send(self, offset: str) -> connections.Reply:
        packed = self._wire.pack("FCALL", keys.function("attend"), 1, self._key, self.identity, offset)
        return self._wire.ask(packed)

    def _compare(self, sent: float, reply: connections.Reply) -> None:
        """Compare the store's time, in its reply to the heartbeat sent then, with the time here."""
        match reply:
            case [_, int(at_ms)]:
                now = time.monotonic()
                least, most = at_ms / 1000 - now, at_ms / 1000 - sent
                former_least, former_most = self._ahead or (least, most)
                forward, back = least - former_most, former_least - most
                self._possible_step = max(most - former_least, former_most - least)
                overlap = max(least, former_least), min(most, former_most)
                self._ahead = overlap if max(forward, back) <= 0.0 else (least, most)
                if max(forward, back) > _STEP_SECONDS:
                    self._stepped = now
                    jump = forward if forward > back else -back
                    telemetry.log.warning("the store's clock jumped", seconds=round(jump, 1))
