"""A stream is sent as it is produced, and ends when its client hangs up or the server stops."""

import contextlib
import http.client
import signal
import socket
import ssl
import time
from concurrent import futures

import pytest
import urllib3

from app.serving import gunicorn_worker
from tests.support.extender import echo_application, server_processes

REQUEST = b"GET /apis/v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def server(start: server_processes.Starts) -> server_processes.Server:
    return start(threads=2, age=60.0)


def opened(server: server_processes.Server) -> ssl.SSLSocket:
    """A connection on which a stream has begun."""
    sock = server.connect("viewer")
    sock.sendall(REQUEST)
    until(sock, b"data: 3\n\n")
    return sock


def until(sock: ssl.SSLSocket, piece: bytes) -> bytes:
    """What arrives up to a piece of the stream, while the stream goes on."""
    received = b""
    while piece not in received:
        more = sock.recv(65_536)
        assert more, received
        received += more
    return received


def closed(server: server_processes.Server, number: int) -> None:
    """Wait until so many streams were closed at the server."""

    def count() -> bool:
        return sum("a stream was closed" in line for line in server.process.lines) == number

    server_processes.eventually(count, f"{number} closed streams")


def test_pieces_arrive_while_the_stream_goes_on_and_it_has_no_length(
    server: server_processes.Server,
) -> None:
    with server.connect("viewer") as sock:
        sock.sendall(REQUEST)
        head, _, rest = until(sock, b"data: 3\n\n").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"connection: close" in head.lower()
        assert b"content-length" not in head.lower()
        assert rest.startswith(b"data: 0\n\ndata: 1\n\n")
        until(sock, b"data: 30\n\n")
    closed(server, 1)


def test_a_stream_for_which_no_thread_can_be_started_is_refused_and_the_worker_goes_on(
    server: server_processes.Server,
) -> None:
    with server.client() as other:
        assert other.ask("POST", "/filter", b"{}")[0] == 200
        with server.client("viewer") as client:
            status, answer = client.ask("GET", "/apis/v1/threadless")
        assert (status, answer["reasonCode"]) == (503, "Unavailable")
        assert "cannot start a thread" in answer["message"]
        assert other.ask("POST", "/filter", b"{}")[0] == 200, "on the same connection"
    closed(server, 1)


def test_a_stream_that_ends_at_once_is_counted_once_as_closed(server: server_processes.Server) -> None:
    """Its thread may end the connection before the thread that began it is through."""
    for number in range(60):
        with server.connect("viewer") as sock:
            sock.sendall(b"GET /apis/v1/brief HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if number % 2:
                while sock.recv(65_536):
                    pass
    closed(server, 60)
    url = f"http://127.0.0.1:{server.process.health_port()}/metrics"
    server_processes.eventually(
        lambda: b"topolog_open_connections 0.0\n" in urllib3.request("GET", url).data,
        "no connection is counted as open",
    )


def test_calls_wait_for_a_thread_where_no_further_one_can_be_started(
    start: server_processes.Starts,
) -> None:
    server = start(threads=8)
    with server.client("viewer") as client:
        assert client.ask("GET", "/apis/v1/poolless")[0] == 200
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.client("viewer")) for _ in range(3)]
        with futures.ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda one: one.ask("GET", "/apis/v1/slow")[0], clients))
        assert answers == [200, 200, 200]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(8)]
        with futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda one: one.ask("POST", "/filter", b"{}")[0], clients))
        assert answers == [200] * 8
    assert any("calls wait for a thread" in line for line in server.process.lines)
    assert not any("Worker exited" in line for line in server.process.lines)


def test_streams_take_no_thread_of_other_requests(server: server_processes.Server) -> None:
    number = 2 * gunicorn_worker.INTROSPECTION_THREADS
    with contextlib.ExitStack() as streams:
        for _ in range(number):
            streams.enter_context(opened(server))
        with server.client("viewer") as client:
            assert client.ask("GET", "/apis/v1/nodes")[0] == 200
        with server.client() as client:
            assert client.ask("POST", "/filter", b"{}")[0] == 200
    closed(server, number)


def test_a_client_that_reads_a_little_at_a_time_loses_its_stream(start: server_processes.Starts) -> None:
    """It takes each record in time, and would hold the one place of an export for an hour."""
    server = start(threads=2, answer=0.5)
    with server.connect("viewer") as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(REQUEST.replace(b"watch", b"export"))
        ends = time.monotonic() + server_processes.PATIENCE
        while not any("reads too slowly" in line for line in server.process.lines):
            assert time.monotonic() < ends
            assert sock.recv(2048)
            time.sleep(0.05)
        closed(server, 1)
    health = http.client.HTTPConnection("127.0.0.1", server.process.health_port(), timeout=5)
    with contextlib.closing(health):
        health.request("GET", "/metrics")
        assert b'outcome="late"} 1.0' in health.getresponse().read()


def test_a_client_that_keeps_pace_gets_the_whole_stream(start: server_processes.Starts) -> None:
    """In more time than the deadline of one answer, which is long enough for a busy machine."""
    server = start(threads=2, answer=2.0)
    size, pieces = 0, 100
    with server.client("viewer") as client:
        client.connection.request("GET", "/apis/v1/export")
        response = client.connection.getresponse()
        while piece := response.read(echo_application.EXPORTED // pieces):
            size += len(piece)
            time.sleep(3 * 2.0 / pieces)
    assert (response.status, size) == (200, echo_application.EXPORTED)
    closed(server, 1)


def test_a_role_is_required_for_a_stream(server: server_processes.Server) -> None:
    with server.client("scheduler") as client:
        assert client.ask("GET", "/apis/v1/watch")[0] == 403


def test_a_stream_ends_with_the_server(server: server_processes.Server) -> None:
    with opened(server) as sock:
        server.process.signal(signal.SIGTERM)
        while sock.recv(65_536):
            pass
    closed(server, 1)
