"""Limits folds of the past to one at a time: one may take a second of CPU and a copy of the cluster.

Callers of the same offset share one fold. Others wait for a bounded time. A fold ends early if its caller
leaves; if others share it, one of them folds in its place.
"""

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Generic, TypeVar

from app.store import errors

T = TypeVar("T")


Check = Callable[[], object]
"""Raises an exception once the caller does not wait for the result any longer."""


def always_attended() -> None:
    """The check of a caller that always waits for the result."""


class _Left(Exception):
    """The caller whose fold this was does not wait any longer; its own error is the cause."""


class FoldLimit(Generic[T]):
    """Runs folds one after the other; thread-safe."""

    def __init__(self, *, patience: float) -> None:
        """``patience``: seconds that a caller waits for the folds of others before Busy is raised."""
        self._patience = patience
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._folds: dict[int, futures.Future[T]] = {}

    def at(self, offset: int, fold: Callable[[Check], T], attended: Check) -> T:
        """The result of the fold, or of one already running for the same offset.

        ``fold`` calls the check that it is given now and then. Raises Busy, and what ``attended`` raises.
        """
        while True:
            with self._lock:
                shared = self._folds.get(offset)
                if shared is None:
                    own = self._folds[offset] = futures.Future()
            if shared is None:
                return self._lead(offset, own, fold, attended)
            try:
                return shared.result(self._patience)
            except futures.TimeoutError:
                raise errors.Busy(self._patience) from None
            except _Left:
                attended()

    def _lead(self, offset: int, own: "futures.Future[T]", fold: Callable[[Check], T], attended: Check) -> T:
        def check() -> None:
            try:
                attended()
            except Exception as error:
                raise _Left from error

        try:
            result = self._in_turn(lambda: fold(check))
        except BaseException as error:
            self._ended(offset)
            own.set_exception(error)
            if isinstance(error, _Left) and error.__cause__ is not None:
                raise error.__cause__ from None
            raise
        self._ended(offset)
        own.set_result(result)
        return result

    def _ended(self, offset: int) -> None:
        """Later callers start a fold of their own: its result may be found as near."""
        with self._lock:
            del self._folds[offset]

    def _in_turn(self, fold: Callable[[], T]) -> T:
        if not self._running.acquire(timeout=self._patience):
            raise errors.Busy(self._patience)
        try:
            return fold()
        finally:
            self._running.release()
