"""The short way to the API server: what it leaves behind when it gives up."""

import socket

import pytest

from app.kube import accessing, connecting, errors


def test_a_call_that_was_given_up_is_broken_off_and_not_delivered_later() -> None:
    """An ordinary close would let the kernel send the rest once a parted network is whole again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        connections = connecting.Connections(accessing.plain(f"http://127.0.0.1:{port}"))
        with pytest.raises(errors.Unreachable, match="no answer"):
            connections.exchange("POST", "/binding", b"{}", timeout=0.05)
        server, _ = listener.accept()
        with server, pytest.raises(ConnectionResetError):
            read_to_the_end(server)
        connections.close()


def read_to_the_end(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass
