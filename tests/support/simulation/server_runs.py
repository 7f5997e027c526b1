"""The run of a simulated store: one real server plays all that there are, one after another.

A replica that takes over, like a server that was started again, is another process: its ``run_id`` is
another one, for the functions in it and for every client.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import redis

from app.store import keys, schemas
from app.store.server import connections

_KEY = "simulated:run"
_ASKED = "string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')"
_PLAYED = f"redis.call('GET', '{_KEY}') or '0'"


class Server:
    """Which of the servers is played now."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._run = 0

    def go_on(self, *, restarted: bool) -> None:
        """Another one from now on, or the same one over other data: after it was a replica for a while."""
        self._run += restarted
        self._client.set(_KEY, str(self._run))

    def doubted(self, names: keys.Keys) -> bool:
        """Whether a recorder has vouched for the log, but not in this run."""
        vouched = self._client.hget(names.meta, "run")
        return vouched is not None and connections.text(vouched) != str(self._run)

    @contextlib.contextmanager
    def played(self) -> Iterator[None]:
        """The functions and the replies of INFO name this run."""
        text = schemas.library()
        assert text.count(f"run or {_ASKED}") == 1

        asked = redis.Redis.info

        def info(client: redis.Redis, *sections: str) -> dict[str, object]:
            answer: Any = asked(client, *sections)
            return {**answer, "run_id": str(self._run)}

        with (
            mock.patch.object(schemas, "library", return_value=text.replace(f"run or {_ASKED}", _PLAYED)),
            mock.patch.object(redis.Redis, "info", info),
        ):
            yield
