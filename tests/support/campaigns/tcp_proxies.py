"""A network of our own: a TCP proxy whose connections can be cut, silenced, or made one-way.

What cannot pass waits, as in a real network, and arrives late when the way is open again. Who is on a
connection shows by the commands on it (a replica, a sentinel, or a client), and each can be treated
differently.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator
from enum import Enum

_CHUNK = 1 << 16


class Way(Enum):
    """What passes."""

    OPEN = "everything"
    CUT = "nothing: connections break, and new ones are refused"
    SILENT = "nothing, and neither side is notified"
    REPLIES_ONLY = "answers only: what is asked does not arrive"
    MUTE = "questions only: what is answered does not arrive"


class Who(Enum):
    """Who is on a connection."""

    CLIENT = b""
    REPLICA = b"REPLCONF"
    SENTINEL = b"sentinel-"


ALL = tuple(Who)
_ASKS = (Way.OPEN, Way.MUTE)
_ANSWERS = (Way.OPEN, Way.REPLIES_ONLY)


class Proxy:
    """A way to one port of the loopback interface."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self._ways = dict.fromkeys(Who, Way.OPEN)
        self._changed = threading.Condition()
        self._connections: set[Connection] = set()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def become(self, way: Way, *who: Who) -> None:
        """Treat those (all if none is named) so from now on."""
        with self._changed:
            self._ways |= dict.fromkeys(who or ALL, way)
            self._changed.notify_all()
            for one in list(self._connections):
                if self._ways[one.who] is Way.CUT:
                    one.end()

    @contextlib.contextmanager
    def being(self, way: Way, *who: Who) -> Iterator[None]:
        """The same for a while."""
        self.become(way, *who)
        try:
            yield
        finally:
            self.become(Way.OPEN, *who)

    def close(self) -> None:
        """End every connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            for one in list(self._connections):
                one.end()

    def passes(self, connection: "Connection", *, ask: bool) -> bool:
        """Wait until this direction is open; false if the connection has to end."""
        allowed = _ASKS if ask else _ANSWERS
        with self._changed:
            while not self._closed and not connection.ended:
                way = self._ways[connection.who]
                if way is Way.CUT:
                    return False
                if way in allowed:
                    return True
                self._changed.wait()
        return False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._ways[Who.CLIENT] is Way.CUT and all(way is Way.CUT for way in self._ways.values()):
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target), 2.0)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(self, client, server)
        with self._changed:
            self._connections.add(connection)
        connection.run()
        with self._changed:
            self._connections.discard(connection)


class Connection:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.who = Who.CLIENT
        self.ended = False
        self._proxy = proxy
        self._client = client
        self._server = server

    def run(self) -> None:
        """Until either side ends it."""
        answers = threading.Thread(target=self._pump, args=(self._server, self._client, False), daemon=True)
        answers.start()
        self._pump(self._client, self._server, True)
        answers.join()
        for one in (self._client, self._server):
            one.close()

    def end(self) -> None:
        """Break it."""
        self.ended = True
        for one in (self._client, self._server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _pump(self, source: socket.socket, sink: socket.socket, ask: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                if ask and self.who is Who.CLIENT:
                    self.who = next(
                        (one for one in (Who.REPLICA, Who.SENTINEL) if one.value in data), self.who
                    )
                if not self._proxy.passes(self, ask=ask):
                    break
                if source.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    break  # reset meanwhile: nothing of it is sent again, as a kernel does
                sink.sendall(data)
        self._proxy.passes(self, ask=ask)  # even the end of a connection shows only where something passes
        self.end()
