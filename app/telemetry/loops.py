"""Runs loops that must live as long as their process; /livez fails if one of their threads dies.

A loop that raises an Exception is run again after a jittered exponential pause; each failure is logged with
its traceback and counted. A thread that ends otherwise, because its loop raised a BaseException, is listed
by ``dead``: /livez then fails and the kubelet restarts the process.
"""

import os
import random
import threading
import time
from collections.abc import Callable

from app.pauses import Pauses
from app.telemetry import metrics
from app.telemetry.log_setup import log

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 30.0
SETTLED = 60.0
"""Seconds after which a running loop counts as healthy: its next failure is the first again."""

Wait = Callable[[float], bool]
"""Waits for the given seconds; returns True early if the loop must stop (``Event.wait``)."""


class Loop:
    """A loop, in a new thread (``start``) or in the caller's thread (``run``)."""

    def __init__(
        self,
        name: str,
        body: Callable[[], object],
        *,
        wait: Wait | None = None,
        fatal: tuple[type[Exception], ...] = (),
        longest: float = LONGEST_PAUSE,
        rng: random.Random | None = None,
    ) -> None:
        """``body`` runs until it is stopped and then returns. ``wait``: by a clock or an event of the caller,
        who stops the loop by it; ``fatal``: errors that end the loop, because they need an operator;
        ``longest``: the maximum pause in seconds.
        """
        self.name = name
        self._body = body
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._fatal = fatal
        self._longest = longest
        self._rng = rng or random.Random()
        self._thread: threading.Thread | None = None
        self.problem = ""
        """The error of the last run, during the pause after it; empty while the loop runs."""

    def start(self) -> "Loop":
        """Run in a new thread, which /livez then monitors; return this loop."""
        metrics.LOOP_FAILURES.labels(self.name)
        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        _monitored.add(self)
        try:
            self._thread.start()
        except BaseException:
            _monitored.discard(self)
            raise
        return self

    def wait(self, seconds: float) -> bool:
        """Wait in the body between two steps; returns True early once the body must return."""
        return self._wait(seconds)

    @property
    def stopped(self) -> bool:
        """Whether ``end`` or ``stop`` was called: the body must return."""
        return self._stopped.is_set()

    def end(self) -> None:
        """Let the body return at its next ``wait``."""
        self._stopped.set()

    def stop(self, timeout: float) -> None:
        """Let the body return, and wait until the thread has ended."""
        self.end()
        self.join(timeout)

    def join(self, timeout: float) -> None:
        """Stop monitoring the thread and wait until it has ended."""
        _monitored.discard(self)
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def ended(self) -> bool:
        """Whether the thread was started and has ended."""
        thread = self._thread
        return thread is not None and thread.ident is not None and not thread.is_alive()

    def run(self) -> None:
        """Run in this thread until the body returns. Raises only fatal errors and BaseExceptions."""
        metrics.LOOP_FAILURES.labels(self.name)
        self._thread = threading.current_thread()
        _monitored.add(self)
        try:
            self._repeat()
        finally:
            _monitored.discard(self)

    def _repeat(self) -> None:
        pauses = Pauses(FIRST_PAUSE, self._longest)
        while True:
            started = time.monotonic()
            self.problem = ""
            try:
                self._body()
                return
            except self._fatal:
                raise
            except Exception as error:
                if time.monotonic() - started >= SETTLED:
                    pauses.reset()
                pause = pauses.take() * self._rng.uniform(0.5, 1.0)
                self.problem = f"{type(error).__name__}: {error}"
                metrics.LOOP_FAILURES.labels(self.name).inc()
                log.exception("loop failed, retrying", loop=self.name, pause=round(pause, 3))
            if self._wait(pause):
                return

    def _work(self) -> None:
        self._repeat()
        # Not reached if the loop raised: its thread then counts as dead.
        _monitored.discard(self)


def repeated(name: str, step: Callable[[], float], *, longest: float = LONGEST_PAUSE) -> Loop:
    """A loop that runs the step until it is stopped; the step returns the seconds until its next run."""

    def body() -> None:
        while not loop.wait(step()):
            pass

    loop = Loop(name, body, longest=longest)
    return loop


class _Monitored:
    """The loops whose threads must run."""

    def __init__(self) -> None:
        self.reset()
        # Threads do not survive a fork.
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
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

    def problems(self) -> dict[str, str]:
        with self._lock:
            return {loop.name: loop.problem for loop in self._loops if loop.problem}


_monitored = _Monitored()


def dead() -> list[str]:
    """The names of the loops of this process whose threads have died."""
    return _monitored.dead()


def problems() -> dict[str, str]:
    """Name -> error of the loops of this process that are in a pause after a failure."""
    return _monitored.problems()


def liveness() -> tuple[int, bytes]:
    """Status and body of the response to /livez."""
    lines = [f"the thread {name!r} has died: this process must be restarted\n" for name in dead()]
    return (503, "".join(lines).encode()) if lines else (200, b"ok\n")
