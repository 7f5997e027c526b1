"""Writes lines to standard error without blocking the caller.

Lines enter a bounded queue; a thread collects them for a moment and writes them in one block. A blocked
reader of standard error causes dropped lines, which are counted, and delays no call.
"""

import atexit
import collections
import contextlib
import os
import threading
from collections.abc import Callable

from app.telemetry import loops, metrics

BATCH_SECONDS = 0.05
MAX_LINES = 10_000


class LineWriter:
    """Queues lines from any thread; a background thread, started with the first line, writes them."""

    def __init__(self, write: Callable[[bytes], object], *, max_lines: int = MAX_LINES) -> None:
        self._write = write
        self._max_lines = max_lines
        self._reset()
        # A thread does not survive a fork: the child starts a new one, with an empty queue.
        os.register_at_fork(after_in_child=self._reset)
        atexit.register(self.flush)

    def _reset(self) -> None:
        self._waiting: collections.deque[bytes] = collections.deque()
        self._arrived = threading.Event()
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._thread: loops.Loop | None = None

    def put(self, line: bytes) -> None:
        """Queue a line, including its line break; drop it if the queue is full."""
        if self._thread is None:
            self._start()
        if len(self._waiting) >= self._max_lines:
            metrics.LINES_DROPPED.inc()
            return
        self._waiting.append(line)
        if not self._arrived.is_set():
            self._arrived.set()

    def flush(self) -> None:
        """Write the queued lines in this thread."""
        with self._writing:
            waiting = self._waiting
            lines = [waiting.popleft() for _ in range(len(waiting))]
            if lines:
                self._write(b"".join(lines))

    def _start(self) -> None:
        """Start the thread; where none can be started (``pids.max``), the next line tries again."""
        with self._starting, contextlib.suppress(RuntimeError):
            if self._thread is None:
                self._thread = loops.Loop("log-lines", self._run).start()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._arrived.wait()
            pause.wait(BATCH_SECONDS)
            self._arrived.clear()
            self.flush()


def to_standard_error(block: bytes) -> None:
    """Write the whole block to file descriptor 2; lines are dropped and counted if it is closed."""
    left = memoryview(block)
    try:
        while left:
            left = left[os.write(2, left) :]
    except OSError:
        metrics.LINES_DROPPED.inc(block.count(b"\n"))
