"""A replica of the simulated store that lags behind, and takes over."""

import time
from typing import Any

import redis

Held = dict[bytes, bytes]
"""Every key of a server, as it dumps it."""


def held(client: redis.Redis) -> Held:
    """Everything that a server holds."""
    found: Any = sorted(client.keys("*"))
    pipeline: Any = client.pipeline(transaction=False)
    for key in found:
        pipeline.dump(key)
    return dict(zip(found, pipeline.execute(), strict=True))


def hold(client: redis.Redis, everything: Held) -> None:
    """Let a server that is empty hold this."""
    pipeline: Any = client.pipeline(transaction=True)
    for key, value in everything.items():
        pipeline.restore(key, 0, value)
    pipeline.execute()


class Replica:
    """What a replica holds: everything, as it was when it was last brought up to date."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._held: Held = {}
        self.begun = False

    def follow(self) -> None:
        """Get everything that the master has."""
        self._held = held(self._client)
        self.begun = True

    def empty(self) -> None:
        """As a master is that was started without its files."""
        self._held = {}

    def promote(self) -> None:
        """Become the master: whatever it had not got is lost."""
        self._client.flushdb()
        hold(self._client, self._held)
        # No failover is over within the millisecond in which the last event was appended.
        time.sleep(0.002)
