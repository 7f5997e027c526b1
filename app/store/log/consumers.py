"""The consumers of a log and their positions: no entry is trimmed that a live consumer has not read.

Each consumer sends a heartbeat with its position now and then; the store's clock dates it. One that has
sent none for as long as the compactor's timeout counts as dead, and entries that it has not read may be
trimmed. Its next read then raises Trimmed, and it starts again from a checkpoint.
"""

import contextlib
import os
import secrets
import socket
import time

import redis

from app.store import errors, keys
from app.store.server import connections

EVERY_SECONDS = 5.0
"""Time between two heartbeats."""
SOON_SECONDS = 0.5
"""The same after much was read: entries can be trimmed only once the heartbeat shows that they were read."""
_MUCH = 64
"""Entries."""


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

    def heartbeat(self, offset: int, *, at_once: bool = False) -> None:
        """Report the position if a heartbeat is due, or ``at_once``; skipped while the store is away."""
        now = time.monotonic()
        if at_once or now >= self._due or (now >= self._soon and offset - self._offset >= _MUCH):
            self._due, self._soon, self._offset = now + EVERY_SECONDS, now + SOON_SECONDS, offset
            with contextlib.suppress(errors.StoreAway):
                self._send(str(offset))
                self._registered = True

    def deregister(self) -> None:
        """Remove the consumer from the store."""
        if self._registered:
            self._registered, self._due = False, 0.0
            with contextlib.suppress(errors.StoreAway):
                self._send("")
        self._wire.close()

    def _send(self, offset: str) -> None:
        packed = self._wire.pack("FCALL", keys.function("attend"), 1, self._key, self.identity, offset)
        self._wire.ask(packed)
