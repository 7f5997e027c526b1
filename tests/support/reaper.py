"""Kills what a test run leaves behind, however it ends.

As a plugin of pytest it starts this file as a script beside each process of the run, the workers of xdist
included. The script reads a pipe that closes when the process ends, even by SIGKILL. Then it kills every
child that was reported through the pipe, every process that inherited the mark in its environment, and all
their descendants: sessions and process groups of their own do not hide any. Both are needed, because Redis
and Valkey overwrite their environment, and a child of a child is not reported.
"""

import contextlib
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec
from unittest import mock

P = ParamSpec("P")

VARIABLE = "TESTS_CHILD_OF"
"""Environment variable with the mark of the test process that started a child."""
_ROUNDS = 50
"""A child may start another one while the list is read: again until a list is empty, at most so often."""


def pytest_configure() -> None:
    """Mark the children of this process, and start its reaper."""
    mark = f"{os.getpid()}.{secrets.token_hex(8)}"
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    reader, writer = os.pipe()  # the writer stays open, and with this process alone, until it ends
    started = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", __file__, mark],
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)],
        setsid=True,
    )
    os.close(reader)
    os.waitpid(started, 0)
    os.environ[VARIABLE] = mark
    reporting = _reporting(subprocess.Popen.__init__, writer)
    mock.patch.object(subprocess.Popen, "__init__", reporting).start()


def _reporting(begin: Callable[P, None], writer: int) -> Callable[P, None]:
    def reported(*arguments: P.args, **options: P.kwargs) -> None:
        begin(*arguments, **options)
        child = arguments[0]
        with contextlib.suppress(OSError):
            os.write(writer, b"%d\n" % (child.pid if isinstance(child, subprocess.Popen) else 0))

    return reported


def _alive() -> Iterator[tuple[int, int, str]]:
    """Process id, that of the parent, and start time of every process that has not ended."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent, *others = (entry / "stat").read_text().rpartition(")")[2].split()
                if state not in "ZX":
                    yield int(entry.name), int(parent), others[17]


def _marked(pid: int, mark: str) -> bool:
    with contextlib.suppress(OSError):
        wanted = f"{VARIABLE}={mark}".encode()
        return wanted in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def left_behind(mark: str, reported: dict[int, str]) -> set[int]:
    """Return the processes with the mark, those reported (with their start times), and all descendants."""
    found, children = set[int](), dict[int, list[int]]()
    for pid, parent, began in _alive():
        children.setdefault(parent, []).append(pid)
        if reported.get(pid) == began or _marked(pid, mark):
            found.add(pid)
    waiting = list(found)
    while waiting:
        more = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(more)
        waiting += more
    return found


def main(mark: str) -> None:
    """Read the process ids of children until the process that writes them has ended, then kill them."""
    if os.fork():
        os._exit(0)  # An orphan is not a descendant of the process, whose own parent may have a reaper, too.
    reported: dict[int, str] = {}
    for line in sys.stdin:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{int(line)}/stat").read_text().rpartition(")")[2].split()
            reported[int(line)] = fields[19]
    for _ in range(_ROUNDS):
        left = left_behind(mark, reported) - {os.getpid()}
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1])
