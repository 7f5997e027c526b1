"""Measures whether the store answers: one PING per second, in a thread of its own.

What a process does with the store differs: one reads all the time, another once an hour. The metric
`topolog_store_up` has to mean the same in all of them. A connection that ends fails the next PING at once,
and a server that hangs fails it after store.socket_timeout: `EVERY` and that timeout bound the delay.
"""

import redis

from app import telemetry
from app.store import errors
from app.store.server import connections

EVERY = 1.0
"""Seconds between two requests."""


class Availability:
    """Whether the store answered the last PING; false before the first."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._loop = telemetry.loops.repeated("availability", self._step, longest=EVERY)
        self.up = False

    def start(self) -> None:
        """Start the thread: after a fork, never before."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.stop(timeout=5.0)

    def measure(self) -> None:
        """Send one PING, and set ``up``."""
        try:
            with connections.translated():
                self._client.ping()
        except errors.StoreError:
            self.up = False
        else:
            self.up = True

    def _step(self) -> float:
        self.measure()
        return EVERY
