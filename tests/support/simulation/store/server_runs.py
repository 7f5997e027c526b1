"""The servers of a simulated store: one real server stands for one after another.

A promoted replica, like a restarted server, is another process with another ``run_id``. Functions and clients
read the ``run_id`` of the simulated server, and the simulated time instead of the machine's.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import redis

from app.store import keys, schemas
from app.store.server import connections
from tests.support.simulation import virtual_time

_KEY = "simulated:run"
_ASKED = "string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')"
_PLAYED = f"redis.call('GET', '{_KEY}') or '0'"
_TIME = "redis.call('TIME')"
_NOW = "simulated:now"
_PLAYED_TIME = f"{{ redis.call('GET', '{_NOW}:seconds'), redis.call('GET', '{_NOW}:microseconds') }}"


class Server:
    """The server that is simulated now."""

    def __init__(self, client: redis.Redis, clock: virtual_time.Clock) -> None:
        self._client = client
        self._clock = clock
        self._run = 0
        self._ahead = 0
        """Nanoseconds by which the servers' clocks are ahead of the simulation's."""

    def go_on(self, *, restarted: bool) -> None:
        """Simulate another server, or the same one with other data, after it has been a replica."""
        self._run += restarted
        # No failover is over within the millisecond in which the last event was appended.
        self._ahead += 2_000_000
        self._client.set(_KEY, str(self._run))

    def doubted(self, names: keys.Keys) -> bool:
        """Whether a recorder has verified the log, but not in this run of the server."""
        verified = self._client.hget(names.meta, "run")
        return verified is not None and connections.text(verified) != str(self._run)

    @contextlib.contextmanager
    def played(self) -> Iterator[None]:
        """Inside the block functions, INFO and TIME show this run and the simulated time."""
        text = schemas.library()
        assert text.count(f"run or {_ASKED}") == 1
        assert _TIME in text
        played = text.replace(f"run or {_ASKED}", _PLAYED).replace(_TIME, _PLAYED_TIME)

        asked = redis.Redis.info
        ask = connections.Wire.ask

        def timed(
            wire: connections.Wire, packed: connections.Packed, *, timeout: float | None = None
        ) -> connections.Reply:
            seconds, microseconds = self._time()
            self._client.mset({f"{_NOW}:seconds": seconds, f"{_NOW}:microseconds": microseconds})
            return ask(wire, packed, timeout=timeout)

        def info(client: redis.Redis, *sections: str) -> dict[str, object]:
            answer: Any = asked(client, *sections)
            return {**answer, "run_id": str(self._run)}

        def time(_: redis.Redis) -> tuple[int, int]:
            return self._time()

        with (
            mock.patch.object(schemas, "library", return_value=played),
            mock.patch.object(redis.Redis, "info", info),
            mock.patch.object(redis.Redis, "time", time),
            mock.patch.object(connections.Wire, "ask", timed),
        ):
            yield

    def _time(self) -> tuple[int, int]:
        """Seconds and microseconds, as the command TIME returns them."""
        return divmod((self._clock.time_ns() + self._ahead) // 1000, 1_000_000)
