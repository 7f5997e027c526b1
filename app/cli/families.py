"""Child processes kept running until somebody says stop.

A child that dies is started again after a pause that doubles as long as it keeps dying at once. One whose
health port is taken gets another one. Only settings that are wrong for all of them end them all.
Children lead sessions of their own, so that Ctrl-C reaches only this process, which stops them in
order: the youngest first, and a store that they write to after all of them.
"""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Final, Protocol

from app import telemetry
from app.cli import exits
from app.store import errors

Say = Callable[[str], None]

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
SETTLED: Final = 60.0
"""Seconds after which a child counts as having run well."""
_LOOK: Final = 0.1
_KEEPER_ENDS: Final = 30.0
"""Seconds that a start of the store may still take when all of it is to end."""
_REFUSING: Final = (exits.USAGE, exits.SETTINGS)
HEALTH_PORT: Final = "TOPOLOG_SERVER_HEALTH_PORT"
"""The variable that gives a child its health port."""


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
    bind: str = ""
    """Where its ports are opened."""

    @property
    def health_port(self) -> int | None:
        """Where it is probed, if it was told a port."""
        port = self.environ.get(HEALTH_PORT)
        return int(port) if port else None

    def move(self) -> int:
        """Give it another health port, one that is free; return that port."""
        family = socket.AF_INET6 if ":" in self.bind else socket.AF_INET
        with socket.create_server((self.bind, 0), family=family) as free:
            port = int(free.getsockname()[1])
        self.environ = {**self.environ, HEALTH_PORT: str(port)}
        return port

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
    refused: Callable[[], str] = str
    """Why the settings are wrong for every child; empty if they are not."""
    _ending: bool = False
    """Set by signals, too, and therefore no Event: a handler must not take a lock."""
    _announced: bool = False
    _code: int = exits.OK

    def run(self, *, ready: Callable[[], bool]) -> int:
        """Start all, keep them running until a signal, stop all; return the exit code.

        ``ready`` is asked now and then until it returns True.
        """

        def watch() -> None:
            while not self._ending:
                self._look(time.monotonic())
                self._announced = self._announced or ready()
                self._pause(_LOOK)

        with self._until_told():
            try:
                telemetry.loops.Loop("family", watch, wait=self._pause, longest=FIRST_PAUSE).run()
            finally:
                self.say("stopping")
                for child in reversed(self.children):
                    child.stop()
                self.say("stopped")
        return self._code

    def _look(self, now: float) -> None:
        for child in self.children:
            code = child.ended()
            if code in _REFUSING and (why := self.refused()):
                self.say(
                    f"{child.name} cannot run as it is told (exit code {code}), nor can any other: {why}"
                )
                self._code, self._ending = exits.SETTINGS, True
                return
            if code is not None:
                how = self._moved(child) if code == exits.TAKEN else _how(code)
                self.say(f"{child.name} {how}; it is started again in {child.retry(now):g} s")
            elif child.process is None and now >= child.due:
                child.start(now)
                self.say(f"{child.name} started (pid {child.process.pid if child.process else '?'})")

    def _moved(self, child: Child) -> str:
        former = child.health_port
        return f"found its health port {former} taken; from now on it is {child.move()}"

    def _pause(self, seconds: float) -> bool:
        """Wait; true if all of it is to end."""
        end = time.monotonic() + seconds
        while not self._ending and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK))
        return self._ending

    @contextlib.contextmanager
    def _until_told(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._ending = True

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
        """Start it again. Raises NoServer."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


@contextlib.contextmanager
def kept_alive(server: Restartable, *, say: Say) -> Iterator[None]:
    """Restart the server when it dies, however often it takes, as long as the block lasts."""
    stop = threading.Event()
    loop = telemetry.loops.Loop("store-keeper", lambda: _keep(server, stop, say), wait=stop.wait).start()
    try:
        yield
    finally:
        stop.set()
        loop.join(_KEEPER_ENDS)


def _keep(server: Restartable, stop: threading.Event, say: Say) -> None:
    while not stop.wait(_LOOK):
        if server.pid is None or _dead(server.pid):
            say("the store died; it is started again")
            _revive(server, stop, say)


def _revive(server: Restartable, stop: threading.Event, say: Say) -> None:
    pause = FIRST_PAUSE
    while not stop.is_set():
        try:
            server.restart()
            return
        except errors.NoServer as problem:
            say(f"{problem}\nthe store is tried again in {pause:g} s")
        stop.wait(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


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
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    if code in _REFUSING:
        return f"cannot run as it is told (exit code {code}, see above)"
    return f"ended with exit code {code}"
