"""A proxy before a server on a unix socket that can lose an answer after the server has given it."""

import contextlib
import socket
import tempfile
import threading
from pathlib import Path


class Proxy:
    """A proxy that can drop the reply to the next append and close the connection."""

    def __init__(self, target: str) -> None:
        self._target = target.removeprefix("unix://")
        self._directory = tempfile.TemporaryDirectory(prefix="topolog-")
        self._path = Path(self._directory.name) / "proxy.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._listener.listen()
        self._losing = threading.Event()
        self._sockets: list[socket.socket] = []
        self.lost = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"unix://{self._path}"

    def lose_next(self) -> None:
        """The next append that is sent is carried out, but its answer never arrives."""
        self._losing.set()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            _end(one)
        self._thread.join()
        self._directory.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(self._target)
            self._sockets += [client, server]
            swallow = threading.Event()
            threading.Thread(target=self._ask, args=(client, server, swallow), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client, swallow), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, swallow: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if self._losing.is_set() and b"topolog_append" in data:
                    self._losing.clear()
                    swallow.set()
                server.sendall(data)
        _end(server)

    def _answer(self, server: socket.socket, client: socket.socket, swallow: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if swallow.is_set():
                    self.lost += 1
                    break
                client.sendall(data)
        _end(client)
        _end(server)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
