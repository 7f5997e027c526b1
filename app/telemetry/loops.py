"""Loops that have to run as long as their process: they survive any error, and /livez watches over them.

A loop that fails is run again after a pause that grows and is jittered; each failure is a log line with
its traceback and is counted. A thread that has ended all the same, because its loop raised what is no
Exception, is named by ``dead``: from then on /livez fails, and the process is restarted from outside.
"""

import os
import random
import threading
import time
from collections.abc import Callable

from app.telemetry import metrics
from app.telemetry.configuring import log

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 30.0
SETTLED = 60.0
"""Seconds after which a loop counts as having run well: the next failure is its first again."""

Wait = Callable[[float], bool]
"""Waits for so many seconds; true at once if the loop is to end (``Event.wait``)."""


class Loop:
    """One loop, in a thread of its own (``start``) or in the caller's (``run``)."""

    def __init__(
        self,
        name: str,
        body: Callable[[], object],
        *,
        wait: Wait,
        fatal: tuple[type[Exception], ...] = (),
        longest: float = LONGEST_PAUSE,
        die: random.Random | None = None,
    ) -> None:
        """``body`` runs until it is stopped and then returns. ``fatal``: errors that the loop must not
        survive, because a person has to look; ``longest``: seconds between two attempts at most.
        """
        self.name = name
        self._body = body
        self._wait = wait
        self._fatal = fatal
        self._longest = longest
        self._die = die or random.Random()
        self._thread: threading.Thread | None = None
        self.trouble = ""
        """The error that the loop pauses for; empty while it runs."""

    def start(self) -> "Loop":
        """Run in a thread of its own, which /livez watches from now on; return this loop."""
        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        _watched.add(self)
        try:
            self._thread.start()
        except BaseException:
            _watched.discard(self)
            raise
        return self

    def join(self, timeout: float) -> None:
        """Wait until the thread has ended, which /livez does not expect to run any more."""
        _watched.discard(self)
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def ended(self) -> bool:
        """Whether the thread has run and does not any more."""
        thread = self._thread
        return thread is not None and thread.ident is not None and not thread.is_alive()

    def run(self) -> None:
        """Run in this thread until the body returns. Raises only what is fatal, or no Exception."""
        self._thread = threading.current_thread()
        _watched.add(self)
        try:
            self._repeat()
        finally:
            _watched.discard(self)

    def _repeat(self) -> None:
        failures = 0
        while True:
            begun = time.monotonic()
            self.trouble = ""
            try:
                self._body()
                return
            except self._fatal:
                raise
            except Exception as error:
                failures = 1 if time.monotonic() - begun >= SETTLED else failures + 1
                pause = self._pause(failures)
                self.trouble = f"{type(error).__name__}: {error}"
                metrics.LOOP_FAILURES.labels(self.name).inc()
                log.exception("a loop failed and is run again", loop=self.name, pause=round(pause, 3))
            if self._wait(pause):
                return

    def _pause(self, failures: int) -> float:
        length = min(self._longest, FIRST_PAUSE * 2.0 ** min(failures - 1, 30))
        return length * self._die.uniform(0.5, 1.0)

    def _work(self) -> None:
        self._repeat()
        # Not where it raised: a loop that has ended so is dead.
        _watched.discard(self)


class _Watched:
    """The loops whose threads have to run."""

    def __init__(self) -> None:
        self.forget()
        # Threads do not survive a fork.
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._loops: dict[Loop, None] = {}

    def add(self, loop: Loop) -> None:
        with self._lock:
            self._loops[loop] = None

    def discard(self, loop: Loop) -> None:
        with self._lock:
            self._loops.pop(loop, None)

    def dead(self) -> list[str]:
        with self._lock:
            return [loop.name for loop in self._loops if loop.ended]

    def troubles(self) -> dict[str, str]:
        with self._lock:
            return {loop.name: loop.trouble for loop in self._loops if loop.trouble}


_watched = _Watched()


def dead() -> list[str]:
    """The names of the loops of this process whose threads have died."""
    return _watched.dead()


def troubles() -> dict[str, str]:
    """Name -> error of the loops of this process that pause because they failed."""
    return _watched.troubles()


def liveness() -> tuple[int, bytes]:
    """Status and body of the answer to /livez."""
    lines = [f"the thread {name!r} has died: this process has to be restarted\n" for name in dead()]
    return (503, "".join(lines).encode()) if lines else (200, b"ok\n")
