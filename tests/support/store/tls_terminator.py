"""TLS before a server that was built without it: handshakes with client certificates, as a server's own."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path

_CHUNK = 65536


class Terminator:
    """Listens with TLS on the loopback interface, and passes everything on to a plain port."""

    def __init__(self, port: int, certificates: Path) -> None:
        """``certificates``: a directory with server.crt, server.key and ca.crt."""
        self._target = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self.renew(certificates)
        self._context.load_verify_locations(certificates / "ca.crt")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def renew(self, certificates: Path) -> None:
        """Show another certificate to connections that are opened later."""
        self._context.load_cert_chain(certificates / "server.crt", certificates / "server.key")

    def close(self) -> None:
        """Listen no more; what is connected goes on."""
        # Closing alone would not wake the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One connection: both directions in two threads, for a TLS socket cannot be waited for well."""
        with contextlib.suppress(OSError), client:
            client.settimeout(5.0)
            with (
                self._context.wrap_socket(client, server_side=True) as secure,
                socket.create_connection(("127.0.0.1", self._target)) as server,
            ):
                secure.settimeout(None)
                back = threading.Thread(target=_pump, args=(server, secure), daemon=True)
                back.start()
                _pump(secure, server)
                back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
