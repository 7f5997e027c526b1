"""Child processes of a test: starts, kills, freezes and restarts them, and never leaves one behind.

Each child has its own session, so that an interrupt at the terminal reaches only the test, which then stops
its children in order. A signal sent here reaches the whole process group of the child, such as gunicorn's
workers.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

# Below the range of outgoing connections, which could take a port before the child listens on it.
PORTS = range(20_000, 30_000)
_CRASH = re.compile(r"Worker \(pid:\d+\) was sent SIG(?:SEGV|BUS|ILL|FPE|ABRT)|Fatal Python error: .*")


class Process:
    """One child process: its command, its log, and its lifecycle."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | pathlib.Path],
        *,
        log: pathlib.Path,
        env: Mapping[str, str] | None = None,  # None: the environment of the test
        cwd: pathlib.Path | None = None,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._env = dict(os.environ if env is None else env)
        self._cwd = cwd
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running child."""
        assert self._child is not None, f"{self.name} was not started"
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code, or minus the signal; None while the child runs."""
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        """Start the child; its output is appended to its log."""
        assert not self.running, f"{self.name} is already running"
        lifeline = _lifeline()
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env | {"CONTROLPLANE_LIFELINE": str(lifeline)},
                cwd=self._cwd,
                start_new_session=True,
                pass_fds=[lifeline],
            )
        _started.add(self)

    def stop(self, *, grace: float = 10.0) -> None:
        """Terminate the child; kill it after `grace` seconds."""
        if self.running:
            assert self._child is not None
            self._signal(signal.SIGCONT)  # a frozen child handles no other signal
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace)
        self.kill()
        refuse_crashes(self.log)

    def kill(self) -> None:
        """Kill the child and its process group."""
        if self._child is not None:
            self._signal(signal.SIGKILL)
            self._child.wait()

    def freeze(self) -> None:
        """Suspend the child: its connections stay open, and it does nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the child after `freeze`."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop the child and start it again."""
        self.stop()
        self.start()

    def tail(self, lines: int = 30) -> str:
        """Return the last lines of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        # The child is the leader of its group: the group id equals its pid, even after its end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def refuse_crashes(log: pathlib.Path) -> None:
    """Fail if a gunicorn worker crashed: its successor may have answered all that followed."""
    crashes = _CRASH.findall(log.read_text(errors="replace")) if log.exists() else []
    assert not crashes, f"{log} has {crashes}"


def free_port(row: int = 1) -> int:
    """Return a free port of 127.0.0.1 that was not returned before.

    It is the first of ``row`` consecutive free ports. They stay this process's until it ends, also while
    no child listens on them: no other test run of the machine, nor another worker of this one, gets them.
    """
    # Not the seeded generator of a test: several runs on one machine would try the same ports.
    for first in random.SystemRandom().sample(PORTS, len(PORTS)):
        ports = range(first, first + row)
        if ports[-1] in PORTS and all(_held(port) and _free(port) for port in ports):
            _taken.update(ports)
            return first
    raise AssertionError("no free port")


def _held(port: int) -> bool:
    """Whether this process holds the lock of the port now, and did not return the port before."""
    if port in _taken:
        return False
    try:
        # One byte of the file for each port; the kernel releases the locks when this process ends.
        fcntl.lockf(_locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@functools.cache
def _lifeline() -> int:
    """Return the end of a pipe that reads as closed once this process has ended for any reason."""
    read, _ = os.pipe()  # the other end stays open, and with this process alone, until it ends
    return read


@atexit.register
def _kill_remaining() -> None:
    for process in list(_started):
        process.kill()


_started: set[Process] = set()
_taken: set[int] = set()
# Opened once: a process that closes any descriptor of a file loses all its locks of that file (fcntl(2)).
_locks = os.open(
    pathlib.Path(tempfile.gettempdir(), f"topolog-test-ports-{os.getuid()}"), os.O_WRONLY | os.O_CREAT, 0o600
)
