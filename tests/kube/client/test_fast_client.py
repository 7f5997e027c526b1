"""The fast client: each call gets its own reply, and one that times out leaves nothing behind."""

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence

import pytest

from app.kube import errors
from app.kube.client import credentials, fast_client
from tests.support.kube import plain_access

CREATED = b'HTTP/1.1 201 Created\r\nContent-Length: 7\r\n\r\n"first"'
SECOND = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"second"'
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n"


@contextlib.contextmanager
def serving(replies: Sequence[bytes]) -> Iterator[tuple[fast_client.FastClient, list[int]]]:
    """A client of a server that sends these bytes, one for each request; the connections of the requests."""
    left, used = list(replies), list[int]()

    def serve(connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(ConnectionError):
            while left and connection.recv(65_536):
                used.append(number)
                connection.sendall(left.pop(0))

    def accept(listener: socket.socket) -> None:
        for number in range(len(replies)):
            with contextlib.suppress(OSError):
                threading.Thread(target=serve, args=(listener.accept()[0], number), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        client = fast_client.FastClient(plain_access.of(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        with contextlib.closing(client):
            yield client, used
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + CREATED,
        b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + CREATED,
        CHUNKED + b'\r\n7\r\n"first"\r\n0\r\nDigest: x\r\n\r\n',
        CHUNKED + b'\r\n4;name=value\r\n"fir\r\n3\r\nst"\r\n0\r\n\r\n',
        b'HTTP/1.1 201 Created\r\ntransfer-encoding:chunked\r\n\r\n7\r\n"first"\r\n0\r\n\r\n',
        b'HTTP/1.1 201 Created\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\n"first"',
    ],
)
def test_the_reply_to_a_request_is_never_the_rest_of_another_one(first: bytes) -> None:
    with serving([first, SECOND]) as (client, used):
        assert client.exchange("POST", "/one", b"{}", timeout=5.0) == (201, b'"first"', False)
        assert client.exchange("POST", "/two", b"{}", timeout=5.0) == (200, b'"second"', False)
    assert used == [0, 0]


@pytest.mark.parametrize(
    "first",
    [
        CREATED + b"HTTP/1.1 201 Created\r\n\r\n",
        b'HTTP/1.1 201 Created\r\nConnection: keep-alive, close\r\nContent-Length: 7\r\n\r\n"first"',
        b'HTTP/1.0 201 Created\r\nContent-Length: 7\r\n\r\n"first"',
    ],
)
def test_a_connection_with_more_to_come_is_not_used_again(first: bytes) -> None:
    with serving([first, SECOND]) as (client, used):
        assert client.exchange("POST", "/one", b"{}", timeout=5.0) == (201, b'"first"', False)
        assert client.exchange("POST", "/two", b"{}", timeout=5.0) == (200, b'"second"', False)
    assert used == [0, 1]


@pytest.mark.parametrize(
    "first",
    [
        b'HTTP/1.1 201 Created\r\n\r\n"first"',
        b'HTTP/1.1 201 Created\r\nContent-Length: 7\r\nContent-Length: 0\r\n\r\n"first"',
        b'HTTP/1.1 201 Created\r\nContent-Length: 0, 7\r\n\r\n"first"',
        b'HTTP/1.1 201 Created\r\nContent-Length: +7\r\n\r\n"first"',
        b'HTTP/1.1 201 Created\r\nContent-Length: 0_7\r\n\r\n"first"',
        b'HTTP/1.1 201 Created\r\nContent-Length:\r\n 7\r\n\r\n"first"',
        b'HTTP/1.1 201 Created\r\nContent-Length : 7\r\n\r\n"first"',
        CHUNKED + b'Content-Length: 7\r\n\r\n7\r\n"first"\r\n0\r\n\r\n',
        b'HTTP/1.1 201 Created\r\nTransfer-Encoding: gzip, chunked\r\n\r\n7\r\n"first"\r\n0\r\n\r\n',
        CHUNKED + b'\r\n-6\r\n"first"\r\n0\r\n\r\n',
        CHUNKED + b'\r\n0x7\r\n"first"\r\n0\r\n\r\n',
        CHUNKED + b'\r\n6\r\n"first"\r\n0\r\n\r\n',
        CHUNKED + b'\r\n\r\n"first"\r\n0\r\n\r\n',
        b"HTTP/1.1 201 Created\r\nContent-Length: 9999999\r\n\r\n" + 9_999_999 * b" ",
    ],
)
def test_a_reply_whose_end_is_not_certain_is_none(first: bytes) -> None:
    with serving([first, SECOND]) as (client, used):
        with pytest.raises(errors.Unreachable, match="no answer") as found:
            client.exchange("POST", "/one", b"{}", timeout=5.0)
        assert not found.value.refused
        assert client.exchange("POST", "/two", b"{}", timeout=5.0) == (200, b'"second"', False)
    assert used == [0, 1]


def test_a_call_that_timed_out_is_reset_and_not_delivered_later() -> None:
    """After an ordinary close the kernel would send the rest when a network partition heals."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        kept = fast_client.FastClient(plain_access.of(f"http://127.0.0.1:{port}"))
        with pytest.raises(errors.Unreachable, match="no answer"):
            kept.exchange("POST", "/binding", b"{}", timeout=1.0)
        server, _ = listener.accept()
        with server, pytest.raises(ConnectionResetError):
            read_to_the_end(server)
        kept.close()


def read_to_the_end(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass


def test_a_call_may_take_the_last_idle_connection_while_the_client_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Taken(deque[tuple[fast_client.Socket, credentials.Tls]]):
        """Another thread is faster."""

        def pop(self, _: int = -1) -> tuple[fast_client.Socket, credentials.Tls]:
            super().pop()[0].close()
            return super().pop()

    with serving([CREATED]) as (client, _):
        client.exchange("POST", "/one", b"{}", timeout=5.0)
        monkeypatch.setattr(client, "_idle", Taken(client._idle))
        client.close()
        monkeypatch.undo()
