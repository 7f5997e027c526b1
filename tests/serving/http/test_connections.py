"""Connections send their data without delay."""

import contextlib
import socket
from collections.abc import Iterator

import pytest
from gunicorn import config

from app.serving.http import connections, deadlines
from tests.support.extender import server_processes


@pytest.fixture
def ends() -> Iterator[tuple[connections.Connection, socket.socket]]:
    """A connection and the client's socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address, server_processes.PATIENCE) as client:
            accepted, peer = listener.accept()
            limits = deadlines.Deadlines()
            connection = connections.Connection(config.Config(), accepted, peer, address, limits)
            with contextlib.closing(connection):
                yield connection, client


@pytest.mark.parametrize("size", [0, 10, deadlines.RECORD - 5, deadlines.RECORD, 20_000, 40_000, 100_000])
def test_the_kernel_holds_back_no_part_of_a_response(
    ends: tuple[connections.Connection, socket.socket], size: int
) -> None:
    connection, client = ends
    assert connection.send(b"head:", b"x" * size)
    assert client.recv(size + 5, socket.MSG_WAITALL) == b"head:" + b"x" * size
    assert not held_back(connection)


def held_back(connection: connections.Connection) -> bool:
    """Whether the kernel holds back partial packets (Linux)."""
    cork = connections.CORK
    return cork is not None and connection.sock.getsockopt(socket.IPPROTO_TCP, cork) != 0


def test_data_that_the_client_does_not_read_at_once_is_sent_later(
    ends: tuple[connections.Connection, socket.socket],
) -> None:
    connection, client = ends
    size = 50_000_000
    assert not connection.send(b"head:", b"x" * size)
    taken = 0
    while taken < size + 5:
        taken += len(client.recv(1_000_000))
        connection.flush()
    assert not connection.sending
    assert not held_back(connection)
