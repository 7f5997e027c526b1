"""Threads for complete requests, which a limit of processes may keep from growing."""

import time
from collections.abc import Callable
from concurrent import futures
from typing import ParamSpec, TypeVar

import structlog

P = ParamSpec("P")
T = TypeVar("T")
REPORTED_SECONDS = 10.0
"""The least time between two log lines of a pool."""

log = structlog.get_logger(__name__)


class ThreadPool(futures.ThreadPoolExecutor):
    """Threads that start as calls arrive, the first one at once. ``submit`` is for one thread.

    Where no further one can be started (``pids.max``, ``ulimit -u``), calls wait for those that run: the
    error would end the loop of the worker, and with it every call.
    """

    def __init__(self, size: int, name: str) -> None:
        """Start the first of ``size`` threads. Raises RuntimeError if it cannot be started."""
        super().__init__(size, name)
        self.lacking = False
        """The latest call waits for a thread that could not be started."""
        self._name = name
        self._reported = -REPORTED_SECONDS
        super().submit(int)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> futures.Future[T]:
        """Let a thread call the function. What is returned has its result only if no thread was lacking."""
        if self._work_queue.qsize():
            # A thread counts itself as idle after each call, also after one that had waited for it. While
            # calls wait, none is idle: without this the pool would not grow when it can again.
            while self._idle_semaphore.acquire(blocking=False):
                pass
        try:
            found = super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            if "new thread" not in str(error):
                raise  # The pool was shut down.
            # The executor has queued the call before it tried to start a thread.
            self.lacking = True
            now = time.monotonic()
            if now - self._reported >= REPORTED_SECONDS:
                self._reported = now
                log.warning("calls wait for a thread", pool=self._name, problem=str(error))
            return futures.Future()
        self.lacking = False
        return found


def lacking(pool: futures.Executor) -> bool:
    """Whether calls wait because a thread of the pool could not be started."""
    return isinstance(pool, ThreadPool) and pool.lacking
