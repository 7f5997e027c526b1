"""What the store takes of its server's memory, and how much of that there is."""

from typing import NamedTuple

import redis

from app.store import connecting, keys

_ROUNDS = 16
"""Cuts of the decision records at most; each takes a tenth of them or more."""


class Memory(NamedTuple):
    """The server's memory, in bytes."""

    used: int
    """What counts towards the limit."""
    limit: int
    """maxmemory; 0: none."""

    @property
    def share(self) -> float:
        """Used part of the limit; 0 without one."""
        return self.used / self.limit if self.limit else 0.0

    def __str__(self) -> str:
        return f"{self.used // 2**20} of {self.limit // 2**20} MiB"


class Scale:
    """Weighs the store of one cluster."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client = client
        self._names = names

    def memory(self) -> Memory:
        """Of the whole server, whoever uses it. Raises StoreAway."""
        with connecting.translated():
            info = self._client.info("memory")
        apart = int(info.get("mem_not_counted_for_evict", 0))
        return Memory(max(0, int(info["used_memory"]) - apart), int(info.get("maxmemory", 0)))

    def log(self) -> int:
        """Bytes of the log, all of its entries weighed. Raises StoreAway."""
        return self._taken(self._names.log)

    def decisions(self) -> int:
        """Bytes of the decision records. Raises StoreAway."""
        return self._taken(self._names.decisions)

    def cut_decisions(self, most: int) -> int:
        """Remove the oldest decision records until they take at most so many bytes; how many were removed.

        This is done even if the server's memory is full. Raises StoreAway.
        """
        removed = 0
        for _ in range(_ROUNDS):
            taken = self.decisions()
            if taken <= most:
                break
            with connecting.translated():
                count = self._client.xlen(self._names.decisions)
                # The older ones may be smaller: then it takes another round.
                left = min(count * most // taken, count * 9 // 10)
                removed += self._client.xtrim(self._names.decisions, maxlen=left, approximate=False)
        return removed

    def _taken(self, key: str) -> int:
        with connecting.translated():
            return int(self._client.memory_usage(key, samples=0) or 0)
