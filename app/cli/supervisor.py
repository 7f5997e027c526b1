"""Runs child processes and restarts them until a signal arrives.

A child that exits is restarted after a pause that doubles while it keeps failing. A child whose health port
is in use gets another port. Only settings that are invalid for every child stop all of them.

Each child is the leader of a separate session, so that Ctrl-C reaches only this process. It stops the
children in reverse start order, and the store after all of them. If it is killed, they end, too.
"""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, Protocol

from app import exit_codes, parent_death, telemetry
from app.pauses import Pauses
from app.serving import ports
from app.store import errors

Report = Callable[[str], None]

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
SETTLED: Final = 60.0
"""Seconds after which a running child counts as healthy: its next failure is the first again."""
_POLL: Final = 0.1
_RESTART_TIMEOUT: Final = 30.0
"""Seconds that a restart of the store may take while everything is being stopped."""
_INVALID_CODES: Final = (exit_codes.USAGE, exit_codes.SETTINGS)
HEALTH_PORT: Final = "TOPOLOG_SERVER_HEALTH_PORT"
"""The variable that sets a child's health port."""


@dataclass(slots=True)
class Child:
    """A child process and the time of its next start."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    grace: float
    """Seconds between SIGTERM and SIGKILL."""
    process: "subprocess.Popen[bytes] | None" = None
    pauses: Pauses = field(default_factory=lambda: Pauses(FIRST_PAUSE, LONGEST_PAUSE))
    due: float = 0.0
    """When to start it (monotonic)."""
    started: float = 0.0
    bind: str = ""
    """The address of its ports; empty: all."""

    @property
    def health_port(self) -> int | None:
        """Its health port, if set."""
        port = self.environ.get(HEALTH_PORT)
        return int(port) if port else None

    def health_port_is_free(self) -> bool:
        """Whether the child could use its health port, so that it must have met another port in use."""
        with contextlib.suppress(OSError), self._listener(self.health_port or 0):
            return True
        return False

    def change_health_port(self) -> int:
        """Assign a free health port and return it."""
        with self._listener(0) as free:
            port = int(free.getsockname()[1])
        self.environ = {**self.environ, HEALTH_PORT: str(port)}
        return port

    def _listener(self, port: int) -> socket.socket:
        return ports.listen(self.bind, port)

    def start(self, now: float) -> None:
        """Start it in a new session."""
        self.started = now
        self.process = subprocess.Popen(
            self.command,
            env=dict(self.environ),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=parent_death.terminates(),
        )

    def poll(self) -> int | None:
        """Its exit code, returned once; None while it runs or is not started."""
        code = self.process.poll() if self.process is not None else None
        if code is not None:
            self.process = None
        return code

    def schedule_restart(self, now: float) -> float:
        """Set the time of the next start; return the seconds until then."""
        if now - self.started >= SETTLED:
            self.pauses.reset()
        pause = self.pauses.take()
        self.due = now + pause
        return pause

    def stop(self) -> None:
        """Terminate it; kill it if it has not exited after `grace` seconds."""
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
class Supervisor:
    """Starts children, restarts those that exit, and stops all of them."""

    children: Sequence[Child]
    report: Report
    invalid: Callable[[], str] = str
    """Returns why the settings are invalid for every child; empty if they are valid."""
    moved: Callable[[], None] = lambda: None
    """Called when a child has another health port than before."""
    _stopping: bool = False
    """Also set by signal handlers, which must not take a lock: therefore not an Event."""
    _announced: bool = False
    _code: int = exit_codes.OK

    def run(self, *, ready: Callable[[], bool]) -> int:
        """Start all children, supervise them until a signal arrives, stop them; return the exit code.

        ``ready`` is polled until it returns True.
        """

        def watch() -> None:
            while not self._stopping:
                self._check(time.monotonic())
                self._announced = self._announced or ready()
                self._pause(_POLL)

        with self._stop_on_signal():
            try:
                telemetry.loops.Loop("supervisor", watch, wait=self._pause, longest=FIRST_PAUSE).run()
            finally:
                # The store is stopped next: no child is left running, even if a report or a stop fails.
                with contextlib.ExitStack() as stops:
                    for child in self.children:
                        stops.callback(child.stop)
                    self.report("stopping")
                self.report("stopped")
        return self._code

    def _check(self, now: float) -> None:
        for child in self.children:
            code = child.poll()
            if code in _INVALID_CODES and (why := self.invalid()):
                self.report(f"{child.name} cannot run with these settings (exit code {code}): {why}")
                self._code, self._stopping = exit_codes.SETTINGS, True
                return
            if code is not None:
                moves = code == exit_codes.PORT_IN_USE and not child.health_port_is_free()
                how = self._move(child) if moves else _describe(code)
                self.report(f"{child.name} {how}; restarting in {child.schedule_restart(now):g} s")
            elif child.process is None and now >= child.due:
                child.start(now)
                self.report(f"{child.name} started (pid {child.process.pid if child.process else '?'})")

    def _move(self, child: Child) -> str:
        former, port = child.health_port, child.change_health_port()
        self.moved()
        return f"cannot use health port {former}, which is in use; it now uses {port}"

    def _pause(self, seconds: float) -> bool:
        """Wait; return whether to stop."""
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _POLL))
        return self._stopping

    @contextlib.contextmanager
    def _stop_on_signal(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._stopping = True

        former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


class Restartable(Protocol):
    """A server process that keeps its data across restarts (store.server.embedded.Server)."""

    @property
    def pid(self) -> int | None:
        """The process id, or None if it is not running."""
        ...

    def restart(self) -> None:
        """Start it again. Raises NoServer."""
        ...

    def stop(self) -> None:
        """Stop it."""
        ...


@contextlib.contextmanager
def keep_running(server: Restartable, *, report: Report) -> Iterator[None]:
    """Restart the server whenever it exits, until the block ends."""
    stop = threading.Event()
    loop = telemetry.loops.Loop(
        "store-restarts", lambda: _watch(server, stop, report), wait=stop.wait
    ).start()
    try:
        yield
    finally:
        stop.set()
        loop.join(_RESTART_TIMEOUT)


def _watch(server: Restartable, stop: threading.Event, report: Report) -> None:
    while not stop.wait(_POLL):
        if server.pid is None or _exited(server.pid):
            report("the store exited; restarting it")
            _restart(server, stop, report)


def _restart(server: Restartable, stop: threading.Event, report: Report) -> None:
    pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)
    while not stop.is_set():
        try:
            server.restart()
            return
        except errors.NoServer as error:
            report(f"{error}\nretrying the store in {pauses.following:g} s")
        stop.wait(pauses.take())


def _exited(pid: int) -> bool:
    """Whether a child process has exited; leaves its exit code to the code that waits for it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _describe(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    if code in _INVALID_CODES:
        return f"cannot run with its settings (exit code {code}, see above)"
    if code == exit_codes.PORT_IN_USE:
        return f"met a port in use (exit code {code}, see above)"
    return f"exited with code {code}"
