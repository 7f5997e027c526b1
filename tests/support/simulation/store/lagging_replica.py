"""A replica of the simulated store that lags behind, and is promoted."""

import time
from typing import Any

import redis

from app.store import keys, schemas
from tests.support import declared
from tests.support.simulation import virtual_time

Held = dict[bytes, bytes]
"""Key -> its DUMP, of every key of a server."""
_MIGRATED: dict[str, Any] = {}
"""The latest server that was migrated, by which functions, and its content then."""


def held(client: redis.Redis) -> Held:
    """All keys of a server."""
    found: Any = sorted(client.keys("*"))
    pipeline: Any = client.pipeline(transaction=False)
    for key in found:
        pipeline.dump(key)
    return dict(zip(found, pipeline.execute(), strict=True))


def hold(client: redis.Redis, everything: Held) -> None:
    """Restore these keys on an empty server."""
    pipeline: Any = client.pipeline(transaction=True)
    for key, value in everything.items():
        pipeline.restore(key, 0, value)
    pipeline.execute()


def emptied(client: redis.Redis, names: keys.Keys) -> None:
    """Empty the store and migrate it; the result is kept and restored for the next history."""
    # Planted bugs may be in the functions, so their text is part of what was migrated.
    made = (client.connection_pool.connection_kwargs["path"], schemas.library())
    client.flushdb()
    if _MIGRATED.get("server") != made:
        # With a clock and names of its own: the history must not depend on whether it is the first one.
        with virtual_time.installed(virtual_time.Clock()):
            schemas.migrate(client, names, declared.SCHEMA)
        _MIGRATED.update(server=made, held=held(client))
    else:
        hold(client, _MIGRATED["held"])


class Replica:
    """A replica, with the content of the primary when it was last brought up to date."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._held: Held = {}
        self.begun = False

    def follow(self) -> None:
        """Copy the content of the primary."""
        self._held = held(self._client)
        self.begun = True

    def empty(self) -> None:
        """Lose the content, like a primary that starts without its files."""
        self._held = {}

    def promote(self) -> None:
        """Become the primary: what it has not copied is lost."""
        self._client.flushdb()
        hold(self._client, self._held)
        # No failover is over within the millisecond in which the last event was appended.
        time.sleep(0.002)
