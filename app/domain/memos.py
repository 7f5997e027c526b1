"""A bounded memo that belongs to an immutable value and is dropped with it."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

_MISSING: Any = object()


class Memo:
    """Values computed from one owner alone, such as a snapshot or a node set, by key.

    Holds at most twice ``limit`` values. When ``limit`` values have been added or used, the values that
    were not used since the last such moment are dropped.

    Threads may share it without a lock: each step is one dict operation, two threads that miss at once
    compute the value twice and both get the first one stored, and a rotation that another thread
    overwrites only loses values that are computed again.
    """

    __slots__ = ("_generations", "_limit")

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._generations: tuple[dict[Hashable, Any], dict[Hashable, Any]] = {}, {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value of the key, computed if it is not held."""
        young, old = self._generations
        value: T = young.get(key, _MISSING)
        if value is not _MISSING:
            return value
        value = old.get(key, _MISSING)
        if value is _MISSING:
            value = compute()
        if len(young) >= self._limit:
            young, old = {}, young
            self._generations = young, old
        kept: T = young.setdefault(key, value)
        return kept

    def __len__(self) -> int:
        return sum(len(generation) for generation in self._generations)
