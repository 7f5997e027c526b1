"""Polls whether the server keeps acknowledged data and accepts appends, for readiness.

The first is read from INFO, which every role may call, and from CONFIG if the user may; ``topolog doctor``
checks the rest.
"""

from typing import Any

import redis
from redis import exceptions

from app.store import errors
from app.store.health import checks, durability, polled
from app.store.log import batches, logs
from app.store.server import connections, discovery

_CONFIG = (
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "save",
)

EVERY = 10.0
"""Seconds for which a result is cached."""
_SOON = 1.0
_TRIED_EVERY = 2.0
"""Seconds for which the result of an empty append is cached."""
_PATIENCE = 0.5


def facts(client: redis.Redis, *, kind: str = "", tls: bool = False) -> checks.ServerFacts:
    """INFO and CONFIG of the server. Raises redis' errors."""
    found = {name: str(value) for name, value in client.info().items() if not isinstance(value, dict)}
    if found.get("loading") == "1":
        # It answers INFO, and has turned its append-only file off meanwhile.
        raise exceptions.BusyLoadingError("the server is loading its data")
    return checks.ServerFacts(found, _configuration(client), kind=kind, tls=tls)


def _configuration(client: redis.Redis) -> dict[str, str] | None:
    try:
        found: dict[Any, Any] = client.config_get(*_CONFIG)
    except exceptions.NoPermissionError:
        return None
    return {connections.text(name): connections.text(value) for name, value in found.items()}


class DurabilityCheck:
    """Whether the server keeps acknowledged data; thread-safe."""

    def __init__(self, client: redis.Redis, *, durable: bool) -> None:
        """``durable``: the server must keep the log over its own restart (settings: require_durable)."""
        self._client = client
        self._durable = durable
        self._poll = polled.Poll(self._refresh)
        self._problem: str | None = "the store's settings have not been checked yet"

    def problem(self) -> str | None:
        """The problem, and what to run; None without one. Checks again when the last result is old."""
        self._poll.run_if_due()
        return self._problem

    def _refresh(self) -> float:
        """Check the server; the last result remains while it does not reply."""
        try:
            with connections.translated():
                seen = facts(self._client)
        except errors.StoreAway:
            return _SOON
        except errors.StoreError as error:
            self._problem = f"cannot see whether the store keeps its data: {error}"
            return EVERY
        if checks.role(seen).loses:
            # The name in the URL may lead elsewhere by now; a replica answers reads, and closes nothing.
            discovery.leave(self._client)
        wrong = [found for found in durability.losses(seen) if found.loses and self._matters(found)]
        self._problem = "; ".join(map(_sentence, wrong)) or None
        return EVERY

    def _matters(self, found: checks.Finding) -> bool:
        # Without an append-only file the state can be read again; a log with holes is never acceptable.
        return self._durable or not found.subject.startswith("append")


class AcceptanceCheck:
    """Whether the store accepts appends, and syncs placements if it has to; thread-safe.

    INFO does not show all reasons (memory, disk, replicas), so an empty batch is appended.
    """

    def __init__(self, log: logs.Log) -> None:
        self._log = log
        self._poll = polled.Poll(self._refresh)
        self._problem: str | None = None

    def problem(self) -> str | None:
        """Why appends are refused; None if they are not. Tries again when the last result is old."""
        self._poll.run_if_due()
        return self._problem

    def _refresh(self) -> float:
        self._problem = self._tried()
        return _TRIED_EVERY

    def _tried(self) -> str | None:
        try:
            self._log.append(batches.Batch(events=()), timeout=_PATIENCE)
        except errors.Unsynced as unsynced:
            return str(unsynced)
        except errors.StoreError as refused:
            return f"appends are refused: {refused}"
        return None


def _sentence(found: checks.Finding) -> str:
    return f"{found.subject} is {found.found}: {found.why}; run {found.run}"
