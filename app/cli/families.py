"""Child processes kept running until somebody says stop.

A child that dies is started again after a pause that doubles as long as it keeps dying at once. A
child that says that its settings are wrong (exit code 3) would say so again: then all are stopped.
Children lead sessions of their own, so that Ctrl-C reaches only this process, which stops them in
order: the youngest first, and a store that they write to after all of them.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, Protocol

from app.cli import exits

Say = Callable[[str], None]

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
SETTLED: Final = 60.0
"""Seconds after which a child counts as having run well."""
_LOOK: Final = 0.1
_FATAL: Final = (exits.USAGE, exits.SETTINGS)


@dataclass(slots=True)
class Child:
    """One process, and when to start it next."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    grace: float
    """Seconds that it may take to end once it is asked to."""
    process: "subprocess.Popen[bytes] | None" = None
    pause: float = FIRST_PAUSE
    due: float = 0.0
    """When it is to be started (monotonic)."""
    started: float = 0.0

    def start(self, now: float) -> None:
        """Start it, in a session of its own."""
        self.started = now
        self.process = subprocess.Popen(
            self.command, env=dict(self.environ), stdin=subprocess.DEVNULL, start_new_session=True
        )

    def ended(self) -> int | None:
        """How it ended, told once; None while it runs or is not started."""
        code = self.process.poll() if self.process is not None else None
        if code is not None:
            self.process = None
        return code

    def retry(self, now: float) -> float:
        """Set the time of the next start; return the pause until then."""
        if now - self.started >= SETTLED:
            self.pause = FIRST_PAUSE
        pause, self.pause = self.pause, min(2 * self.pause, LONGEST_PAUSE)
        self.due = now + pause
        return pause

    def stop(self) -> None:
        """Ask it to end, and end it when it does not."""
        process, self.process = self.process, None
        if process is None:
            return
        _signal(process, signal.SIGTERM)
        try:
            process.wait(self.grace)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()


@dataclass(slots=True)
class Family:
    """Children that run together."""

    children: Sequence[Child]
    say: Say
    _stop: threading.Event = field(default_factory=threading.Event)
    _code: int = exits.OK

    def run(self, *, ready: Callable[[], bool]) -> int:
        """Start all, keep them running until a signal, stop all; return the exit code.

        ``ready`` is asked now and then until it returns True.
        """
        announced = False
        with self._until_told():
            try:
                while not self._stop.is_set():
                    self._look(time.monotonic())
                    announced = announced or ready()
                    self._stop.wait(_LOOK)
            finally:
                self.say("stopping")
                for child in reversed(self.children):
                    child.stop()
                self.say("stopped")
        return self._code

    def _look(self, now: float) -> None:
        for child in self.children:
            code = child.ended()
            if code in _FATAL:
                self.say(f"{child.name} cannot run as it is told (exit code {code}, see above)")
                self._code = exits.SETTINGS
                self._stop.set()
                return
            if code is not None:
                self.say(f"{child.name} {_how(code)}; it is started again in {child.retry(now):g} s")
            elif child.process is None and now >= child.due:
                child.start(now)
                self.say(f"{child.name} started (pid {child.process.pid if child.process else '?'})")

    @contextlib.contextmanager
    def _until_told(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._stop.set()

        former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


class Restartable(Protocol):
    """A server process that can come back with its data (store.embedded.Server)."""

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        ...

    def restart(self) -> None:
        """Start it again."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


@contextlib.contextmanager
def kept_alive(server: Restartable, *, say: Say) -> Iterator[None]:
    """Restart the server when it dies, as long as the block lasts."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_LOOK):
            if server.pid is not None and _dead(server.pid):
                say("the store died; it is started again")
                server.restart()

    thread = threading.Thread(target=watch, name="store-keeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _dead(pid: int) -> bool:
    """Whether a child of ours has ended, without taking its exit code from whoever waits for it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
