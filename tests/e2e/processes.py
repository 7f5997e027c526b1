"""Child processes of a test: started, killed, frozen, restarted, and never left behind.

Each child leads a session of its own, so that an interrupt at the terminal reaches only the test,
which then stops its children in order; a signal sent here reaches the whole family of the child
(gunicorn's workers, say).
"""

import atexit
import contextlib
import functools
import os
import pathlib
import random
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence

# Ports below those that the kernel gives to outgoing connections: any of these could take a higher
# one between the moment it is chosen and the moment the child listens on it.
PORTS = range(20_000, 30_000)


class Process:
    """One child: its command, what it prints, and what is done to it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | pathlib.Path],
        *,
        log: pathlib.Path,
        env: Mapping[str, str] | None = None,  # None: that of the test
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
        """The number of the running child."""
        assert self._child is not None, f"{self.name} was not started"
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def code(self) -> int | None:
        """How it ended: the exit code, or minus the signal; None while it runs."""
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        """Start it; what it prints is added to its log."""
        assert not self.running, f"{self.name} runs already"
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
        """Ask it to end, and make it end when it has not after `grace` seconds."""
        if self.running:
            assert self._child is not None
            self._signal(signal.SIGCONT)  # a frozen child cannot hear anything else
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace)
        self.kill()

    def kill(self) -> None:
        """End it at once and without a word, with all of its own children."""
        if self._child is not None:
            self._signal(signal.SIGKILL)
            self._child.wait()

    def freeze(self) -> None:
        """Stop its clock: it keeps its connections and does nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on after `freeze`."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """End it as `stop` does, and start it again."""
        self.stop()
        self.start()

    def tail(self, lines: int = 30) -> str:
        """Return the end of what it has printed."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        # The child is the leader of its group: they have one number, also after the leader's end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on and that was not returned before."""
    for port in random.sample(PORTS, len(PORTS)):
        if port in _taken:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                _taken.add(port)
                return port
    raise AssertionError("no free port")


@functools.cache
def _lifeline() -> int:
    """Return the end of a pipe that reads as closed once this process is gone, however it went."""
    read, _ = os.pipe()  # the other end stays open, and with this process alone, until it ends
    return read


@atexit.register
def _kill_what_is_left() -> None:
    for process in list(_started):
        process.kill()


_started: set[Process] = set()
_taken: set[int] = set()
