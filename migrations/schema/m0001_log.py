"""The first schema: an empty log with an incarnation."""

from typing import Protocol

import redis

SUBJECT = "an empty log"


class _Context(Protocol):
    @property
    def incarnation(self) -> str: ...


def up(client: redis.Redis, prefix: str, context: _Context) -> None:
    """Create meta, each field only if it is absent: a second run changes nothing."""
    meta = f"{prefix}meta"
    client.hsetnx(meta, "incarnation", context.incarnation)
    client.hsetnx(meta, "head", "0")
