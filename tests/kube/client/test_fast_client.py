"""The fast client: a call that times out leaves nothing behind."""

import socket

import pytest

from app.kube import errors
from app.kube.client import credentials, fast_client


def test_a_call_that_timed_out_is_reset_and_not_delivered_later() -> None:
    """After an ordinary close the kernel would send the rest when a network partition heals."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        kept = fast_client.FastClient(credentials.plain(f"http://127.0.0.1:{port}"))
        with pytest.raises(errors.Unreachable, match="no answer"):
            kept.exchange("POST", "/binding", b"{}", timeout=0.05)
        server, _ = listener.accept()
        with server, pytest.raises(ConnectionResetError):
            read_to_the_end(server)
        kept.close()


def read_to_the_end(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass
