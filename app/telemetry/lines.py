"""Lines on standard error that nobody waits for.

A line is put on a bounded list; a thread gathers for a moment and writes what has come in one
piece. A reader of standard error that hangs costs lines, which are counted, and delays no call.
"""

import atexit
import collections
import os
import threading
from collections.abc import Callable

from app.telemetry import loops, metrics

GATHER_SECONDS = 0.05
KEPT = 10_000


class Lines:
    """Takes lines from any thread; one thread of its own, started with the first line, writes them."""

    def __init__(self, write: Callable[[bytes], object], *, kept: int = KEPT) -> None:
        self._write = write
        self._kept = kept
        self._begin()
        # A thread does not survive a fork: the child starts its own, with nothing of the parent's to write.
        os.register_at_fork(after_in_child=self._begin)
        atexit.register(self.flush)

    def _begin(self) -> None:
        self._waiting: collections.deque[bytes] = collections.deque()
        self._come = threading.Event()
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._thread: loops.Loop | None = None

    def put(self, line: bytes) -> None:
        """Take a line, its end included; drop it if too many wait."""
        if len(self._waiting) >= self._kept:
            metrics.LINES_DROPPED.inc()
            return
        self._waiting.append(line)
        if not self._come.is_set():
            self._come.set()
            if self._thread is None:
                self._start()

    def flush(self) -> None:
        """Write what waits, now and in this thread."""
        with self._writing:
            waiting = self._waiting
            lines = [waiting.popleft() for _ in range(len(waiting))]
            if lines:
                self._write(b"".join(lines))

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = loops.Loop("log-lines", self._run, wait=threading.Event().wait).start()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._come.wait()
            pause.wait(GATHER_SECONDS)
            self._come.clear()
            self.flush()


def to_standard_error(block: bytes) -> None:
    """Write all of the block to file descriptor 2; what a closed one does not take is lost."""
    left = memoryview(block)
    try:
        while left:
            left = left[os.write(2, left) :]
    except OSError:
        metrics.LINES_DROPPED.inc(block.count(b"\n"))
