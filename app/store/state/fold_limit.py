"""Limits folds of the past to one at a time: one may take a second of CPU and a copy of the cluster.

Callers of the same offset share one fold. Others wait for a bounded time.
"""

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Generic, TypeVar

from app.store import errors

T = TypeVar("T")


class FoldLimit(Generic[T]):
    """Runs folds one after the other; thread-safe."""

    def __init__(self, *, patience: float) -> None:
        """``patience``: seconds that a caller waits for the folds of others before Busy is raised."""
        self._patience = patience
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._folds: dict[int, futures.Future[T]] = {}

    def at(self, offset: int, fold: Callable[[], T]) -> T:
        """The result of the fold, or of one already running for the same offset; raises Busy."""
        with self._lock:
            shared = self._folds.get(offset)
            if shared is None:
                own = self._folds[offset] = futures.Future()
        if shared is None:
            return self._lead(offset, own, fold)
        try:
            return shared.result(self._patience)
        except futures.TimeoutError:
            raise errors.Busy(self._patience) from None

    def _lead(self, offset: int, own: "futures.Future[T]", fold: Callable[[], T]) -> T:
        try:
            result = self._in_turn(fold)
        except BaseException as error:
            own.set_exception(error)
            raise
        else:
            own.set_result(result)
            return result
        finally:
            with self._lock:
                del self._folds[offset]

    def _in_turn(self, fold: Callable[[], T]) -> T:
        if not self._running.acquire(timeout=self._patience):
            raise errors.Busy(self._patience)
        try:
            return fold()
        finally:
            self._running.release()
