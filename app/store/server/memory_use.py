"""Measures the memory of the store and of its server."""

from typing import NamedTuple

import redis

from app.store import keys
from app.store.server import connections

_ROUNDS = 16
"""Maximum rounds of trimming decision records; each removes a tenth or more."""


class Memory(NamedTuple):
    """The server's memory, in bytes."""

    used: int
    """Bytes that count towards the limit."""
    limit: int
    """maxmemory; 0 if unlimited."""

    @property
    def share(self) -> float:
        """Used part of the limit; 0 without one."""
        return self.used / self.limit if self.limit else 0.0

    def __str__(self) -> str:
        return f"{self.used // 2**20} of {self.limit // 2**20} MiB"


class MemoryUse:
    """The memory used by the store of one cluster."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client = client
        self._names = names

    def memory(self) -> Memory:
        """The memory of the whole server, for all its users. Raises StoreAway."""
        with connections.translated():
            info = self._client.info("memory")
        apart = int(info.get("mem_not_counted_for_evict", 0))
        return Memory(max(0, int(info["used_memory"]) - apart), int(info.get("maxmemory", 0)))

    def log(self) -> int:
        """Bytes of the log, sampled over all entries. Raises StoreAway."""
        return self._taken(self._names.log)

    def decisions(self) -> int:
        """Bytes of the decision records. Raises StoreAway."""
        return self._taken(self._names.decisions)

    def cut_decisions(self, limit: int) -> int:
        """Remove the oldest decision records until they take at most ``limit`` bytes; how many were removed.

        This is done even if the server's memory is full. Raises StoreAway.
        """
        removed = 0
        for _ in range(_ROUNDS):
            taken = self.decisions()
            if taken <= limit:
                break
            with connections.translated():
                count = self._client.xlen(self._names.decisions)
                # The older ones may be smaller: then another round is needed.
                left = min(count * limit // taken, count * 9 // 10)
                removed += self._client.xtrim(self._names.decisions, maxlen=left, approximate=False)
        return removed

    def _taken(self, key: str) -> int:
        with connections.translated():
            return int(self._client.memory_usage(key, samples=0) or 0)
