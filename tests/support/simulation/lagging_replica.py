"""A replica of the simulated store that lags behind, and takes over."""

import time
from typing import Any

import redis

from app.store import keys, schemas
from tests.support import declared
from tests.support.simulation import virtual_time

Held = dict[bytes, bytes]
"""Every key of a server, as it dumps it."""
_MIGRATED: dict[str, Any] = {}
"""The server that was migrated last, by which functions, and what it held then."""


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


def emptied(client: redis.Redis, names: keys.Keys) -> None:
    """A store that was just migrated; what it takes to migrate one is found out once for each server."""
    # Planted bugs may be in the functions, so their text is part of what was migrated.
    made = (client.connection_pool.connection_kwargs["path"], schemas.library())
    client.flushdb()
    if _MIGRATED.get("server") != made:
        # Under names of its own: what follows must not depend on whether this was the first history.
        with virtual_time.installed(virtual_time.Clock()):
            schemas.migrate(client, names, declared.SCHEMA)
        _MIGRATED.update(server=made, held=held(client))
    else:
        hold(client, _MIGRATED["held"])


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
