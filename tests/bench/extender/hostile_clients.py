"""Clients with any certificate that try to occupy the extender: without a body, or without the role.

A process of the lowest priority: ``python -m tests.bench.extender.hostile_clients PORT TLS COUNT KIND``. It
prints `ready` once every client has sent its first request, and runs until its standard input ends.
"""

import collections
import contextlib
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator

from tests.bench.introspection import viewer_load

BODILESS, DENIED = "bodiless", "denied"
"""The role, and one byte of body that never comes; or no role, again and again."""
_LINES = {BODILESS: "GET /apis/v1/nodes", DENIED: "POST /filter"}
"""Both with the certificate of a viewer."""
_ANSWERS = {BODILESS: {"408"}, DENIED: {"403"}}


@contextlib.contextmanager
def attacking(url: str, tls: pathlib.Path, folder: pathlib.Path, count: int, kind: str) -> Iterator[None]:
    """``count`` clients while the block runs."""
    command = [sys.executable, "-m", "tests.bench.extender.hostile_clients"]
    command += [str(urllib.parse.urlsplit(url).port), str(tls), str(count), kind]
    with (folder / f"hostile-{kind}.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise AssertionError("the clients failed to connect: see their log")
        yield
        process.stdin.close()
        statuses = json.loads(process.stdout.read())
    finally:
        process.kill()
        process.wait()
    # An attack that ended early, or was answered otherwise, would show nothing.
    assert set(statuses) <= _ANSWERS[kind] | {"held", "closed"}, statuses
    assert 2 * statuses.get("held" if kind == BODILESS else "403", 0) >= count, statuses


class Clients:
    """The clients, and the number of replies by status; ``held``: connections open at the end."""

    def __init__(self, port: int, tls: pathlib.Path, count: int, kind: str) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
        self._context.load_cert_chain(tls / "viewer.crt", tls / "viewer.key")
        head = f"{_LINES[kind]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: 1\r\n\r\n".encode()
        self._statuses: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()
        self._enough = threading.Event()
        self._barrier = threading.Barrier(count + 1)
        self._threads = [threading.Thread(target=self._attack, daemon=True) for _ in range(count)]

    def start(self) -> None:
        for each in self._threads:
            each.start()
        self._barrier.wait()

    def stop(self) -> dict[str, int]:
        self._enough.set()
        for each in self._threads:
            each.join()
        return dict(self._statuses)

    def _attack(self) -> None:
        first = True
        while not self._enough.is_set():
            status = "closed"
            # A client that is too slow for a deadline is closed without a reply.
            with contextlib.suppress(OSError), self._connected() as connection:
                connection.sendall(self._request)
                if first:
                    self._barrier.wait()
                    first = False
                status = self._status(connection)
            with self._lock:
                self._statuses[status] += 1

    def _connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        return self._context.wrap_socket(plain, server_hostname="localhost")

    def _status(self, connection: ssl.SSLSocket) -> str:
        """The status of the reply; ``held`` if there is none yet when the attack ends."""
        connection.settimeout(0.2)
        while not self._enough.is_set():
            with contextlib.suppress(TimeoutError):
                return connection.recv(12).decode().rpartition(" ")[2] or "closed"
        return "held"


def main(port: str, tls: str, count: str, kind: str) -> None:
    os.nice(viewer_load.NICENESS)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    clients = Clients(int(port), pathlib.Path(tls), int(count), kind)
    clients.start()
    print("ready", flush=True)
    sys.stdin.buffer.read()
    print(json.dumps(clients.stop()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
