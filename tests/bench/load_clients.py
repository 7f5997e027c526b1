"""Clients of a bench: threads in a process of their own, of the lowest priority.

The process prints `ready` once every client has sent or opened something, and runs until its standard input
ends; then it prints the number of replies by status.
"""

import abc
import collections
import contextlib
import json
import os
import pathlib
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator

NICENESS = 19


@contextlib.contextmanager
def running(module: str, *arguments: object, log: pathlib.Path) -> Iterator[dict[str, int]]:
    """Run the clients of a module while the block runs; the value has the replies by status afterwards."""
    statuses: dict[str, int] = {}
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise AssertionError(f"the clients failed to connect: see {log}")
        yield statuses
        process.stdin.close()
        statuses.update(json.loads(process.stdout.read()))
    finally:
        process.kill()
        process.wait()


class Clients(abc.ABC):
    """``count`` clients with the certificate of a viewer, and the number of replies by status."""

    def __init__(self, port: int, tls: pathlib.Path, count: int) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
        self._context.load_cert_chain(tls / "viewer.crt", tls / "viewer.key")
        self._statuses: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()
        self._enough = threading.Event()
        self._barrier = threading.Barrier(count + 1)
        self._threads = [
            threading.Thread(target=self._run, args=(index,), daemon=True) for index in range(count)
        ]

    @abc.abstractmethod
    def _run(self, index: int) -> None:
        """One client, until there is enough; it waits for the barrier once."""

    def _count(self, status: str) -> None:
        with self._lock:
            self._statuses[status] += 1

    def serve(self) -> None:
        """Be the process of ``running``."""
        os.nice(NICENESS)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        for each in self._threads:
            each.start()
        self._barrier.wait()
        print("ready", flush=True)
        sys.stdin.buffer.read()
        self._enough.set()
        for each in self._threads:
            each.join()
        print(json.dumps(self._statuses), flush=True)
