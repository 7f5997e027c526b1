"""What a connection sends leaves at once, in whatever pieces it goes."""

import contextlib
import socket
from collections.abc import Iterator

import pytest
from gunicorn import config

from app.serving import connections, deadlines
from tests.serving import servers


@pytest.fixture
def ends() -> Iterator[tuple[connections.Connection, socket.socket]]:
    """A connection, and its client's end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address, servers.PATIENCE) as client:
            accepted, peer = listener.accept()
            limits = deadlines.Deadlines()
            connection = connections.Connection(config.Config(), accepted, peer, address, limits)
            with contextlib.closing(connection):
                yield connection, client


@pytest.mark.parametrize("size", [0, 10, deadlines.RECORD - 5, deadlines.RECORD, 20_000, 40_000, 100_000])
def test_nothing_is_held_back_behind_an_answer(
    ends: tuple[connections.Connection, socket.socket], size: int
) -> None:
    connection, client = ends
    assert connection.send(b"head:", b"x" * size)
    assert client.recv(size + 5, socket.MSG_WAITALL) == b"head:" + b"x" * size
    assert not held_back(connection)


def held_back(connection: connections.Connection) -> bool:
    """Whether the kernel waits for more before it sends; not every kernel can."""
    cork = connections.CORK
    return cork is not None and connection.sock.getsockopt(socket.IPPROTO_TCP, cork) != 0


def test_what_the_client_does_not_take_at_once_is_sent_later(
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
