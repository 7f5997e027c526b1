"""Whether the server keeps what it acknowledges, and takes more: looked at now and then, for readiness.

The first is asked of INFO, which every role may read, and of CONFIG where the user may; what cannot be seen
there is left to ``topolog doctor``.
"""

import threading
import time
from typing import Any

import redis
from redis import exceptions

from app.store import connecting, errors, findings, keeping, logs

_CONFIG = (
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "min-replicas-to-write",
    "min-replicas-max-lag",
)

EVERY = 10.0
"""Seconds that an answer holds."""
_SOON = 1.0
_TRIED_EVERY = 2.0
"""Seconds that it holds whether an append of nothing was taken."""
_PATIENCE = 0.5


def facts(client: redis.Redis, *, kind: str = "", tls: bool = False) -> findings.Facts:
    """What the server says of itself. Raises redis' errors."""
    return findings.Facts(
        {name: str(value) for name, value in client.info().items() if not isinstance(value, dict)},
        _configuration(client),
        kind=kind,
        tls=tls,
    )


def _configuration(client: redis.Redis) -> dict[str, str] | None:
    try:
        found: dict[Any, Any] = client.config_get(*_CONFIG)
    except exceptions.NoPermissionError:
        return None
    return {connecting.text(name): connecting.text(value) for name, value in found.items()}


class Vetting:
    """What keeps the store from being trusted; may be asked by any thread."""

    def __init__(self, client: redis.Redis, *, durable: bool) -> None:
        """``durable``: the server must keep the log over its own restart (settings: require_durable)."""
        self._client = client
        self._durable = durable
        self._lock = threading.Lock()
        self._due = 0.0
        self._trouble: str | None = "the store's settings have not been looked at yet"

    def trouble(self) -> str | None:
        """What is wrong, and what to run; None if nothing is. Looks again when the last answer is old."""
        if time.monotonic() >= self._due and self._lock.acquire(blocking=False):
            try:
                self._due = time.monotonic() + (EVERY if self._look() else _SOON)
            finally:
                self._lock.release()
        return self._trouble

    def _look(self) -> bool:
        """Whether the store could be asked; what was seen last counts as long as it cannot."""
        try:
            with connecting.translated():
                seen = facts(self._client)
        except errors.StoreAway:
            return False
        except errors.StoreError as error:
            self._trouble = f"cannot see whether the store keeps its data: {error}"
            return True
        wrong = [found for found in keeping.losses(seen) if found.loses and self._matters(found)]
        self._trouble = "; ".join(map(_said, wrong)) or None
        return True

    def _matters(self, found: findings.Finding) -> bool:
        # Without an append-only file the state can be read anew; a log with holes cannot be lived with.
        return self._durable or not found.subject.startswith("append")


class Acceptance:
    """Whether the store takes appends; may be asked by any thread.

    INFO does not say it for each of the reasons (memory, disk, replicas), so nothing is appended, in earnest.
    """

    def __init__(self, log: logs.Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._due = 0.0
        self._trouble: str | None = None

    def trouble(self) -> str | None:
        """Why appends are refused; None if they are not. Tries again when the last answer is old."""
        if time.monotonic() >= self._due and self._lock.acquire(blocking=False):
            try:
                self._trouble = self._tried()
                self._due = time.monotonic() + _TRIED_EVERY
            finally:
                self._lock.release()
        return self._trouble

    def _tried(self) -> str | None:
        try:
            self._log.append(logs.Batch(events=()), timeout=_PATIENCE)
        except errors.Rewound:
            return None  # Readers see to that.
        except errors.StoreError as refused:
            return f"appends are refused: {refused}"
        return None


def _said(found: findings.Finding) -> str:
    return f"{found.subject} is {found.found}: {found.why}; run {found.run}"
