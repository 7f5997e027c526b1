"""Clients with any certificate that try to occupy the extender: without a body, or without the role.

``python -m tests.bench.extender.hostile_clients PORT TLS COUNT KIND`` is the process of load_clients.
"""

import contextlib
import pathlib
import socket
import ssl
import sys
import urllib.parse
from collections.abc import Iterator

from tests.bench import load_clients

BODILESS, DENIED = "bodiless", "denied"
"""The role, and one byte of body that never comes; or no role, again and again."""
_LINES = {BODILESS: "GET /apis/v1/nodes", DENIED: "POST /filter"}
"""Both with the certificate of a viewer."""
_ANSWERS = {BODILESS: {"408"}, DENIED: {"403"}}


@contextlib.contextmanager
def attacking(url: str, tls: pathlib.Path, folder: pathlib.Path, count: int, kind: str) -> Iterator[None]:
    """``count`` clients while the block runs."""
    port, log = urllib.parse.urlsplit(url).port, folder / f"hostile-{kind}.log"
    with load_clients.running(__name__, port, tls, count, kind, log=log) as statuses:
        yield
    # An attack that ended early, or was answered otherwise, would show nothing.
    assert set(statuses) <= _ANSWERS[kind] | {"held", "closed"}, statuses
    assert 2 * statuses.get("held" if kind == BODILESS else "403", 0) >= count, statuses


class Clients(load_clients.Clients):
    """The clients; the status ``held`` is a connection that was open at the end."""

    def __init__(self, port: int, tls: pathlib.Path, count: int, kind: str) -> None:
        super().__init__(port, tls, count)
        head = f"{_LINES[kind]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: 1\r\n\r\n".encode()

    def _run(self, index: int) -> None:
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
            self._count(status)

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


if __name__ == "__main__":
    port, tls, count, kind = sys.argv[1:]
    Clients(int(port), pathlib.Path(tls), int(count), kind).serve()
