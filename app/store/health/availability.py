"""Measures whether the store answers: one PING per second, in a thread of its own.

What a process does with the store differs: one reads all the time, another once an hour. The metric
`topolog_store_up` has to mean the same in all of them. A connection that ends fails the next PING at once,
and a server that hangs fails it after store.socket_timeout: `EVERY` and that timeout bound the delay.
"""

import threading

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
        self._stopped = threading.Event()
        self._loop = telemetry.loops.Loop("availability", self._run, wait=self._stopped.wait, longest=EVERY)
        self.up = False

    def start(self) -> None:
        """Start the thread: after a fork, never before."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        self._loop.join(timeout=5.0)

    def measure(self) -> None:
        """Send one PING, and set ``up``."""
        try:
            with connections.translated():
                self._client.ping()
        except errors.StoreError:
            self.up = False
        else:
            self.up = True

    def _run(self) -> None:
        while True:
            self.measure()
            if self._stopped.wait(EVERY):
                return
