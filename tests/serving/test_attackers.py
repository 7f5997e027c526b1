"""Clients that mean no good hold up nobody else: none of them keeps a thread."""

import contextlib
import json
import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.serving import servers
from tests.serving.conftest import Starts

# Enough to hold all threads several times over; the servers here have four.
MANY = 200
THREADS = 4
HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(40)


@pytest.fixture
def server(start: Starts) -> servers.Server:
    return start(threads=THREADS, handshake=2.0)


@contextlib.contextmanager
def crowd(server: servers.Server, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(server.raw()) for _ in range(count)]
        for each in sockets:
            each.sendall(sent)
        yield sockets


def answered(server: servers.Server) -> bool:
    """Return whether a good client on a new connection gets its answer; it waits for that for long."""
    with server.client() as client:
        return client.ask("POST", "/filter", b"{}")[0] == 200


def closed(connection: socket.socket) -> bool:
    """Wait until the other end closes; whatever it says before is skipped."""
    connection.settimeout(servers.PATIENCE)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while connection.recv(10_000):
            pass
    return True


@pytest.mark.parametrize("sent", [b"", HELLO[:1], HELLO], ids=["silent", "one byte", "half a hello"])
def test_a_crowd_that_does_not_finish_its_handshake(server: servers.Server, sent: bytes) -> None:
    with crowd(server, MANY, sent) as sockets:
        # While they are all open, as nothing has been closed yet, others are served.
        for _ in range(5):
            assert answered(server)
        still_open = [each for each in sockets if is_open(each)]
        assert len(still_open) == MANY
        assert all(closed(each) for each in sockets)
    assert f'outcome="late"}} {MANY}.0' in metrics(server)


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def metrics(server: servers.Server) -> str:
    with socket.create_connection(("127.0.0.1", server.process.health_port())) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        heard = b""
        while piece := connection.recv(10_000):
            heard += piece
    return heard.decode()


def dripped(connection: socket.socket, drops: bytes) -> int:
    """Send byte after byte until the other end closes; return how many could be sent."""
    sent = 0
    connection.settimeout(0.1)
    for position in range(len(drops)):
        try:
            connection.sendall(drops[position : position + 1])
            sent += 1
            if connection.recv(1000) == b"":
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return sent


def test_a_dripping_handshake_has_one_deadline(server: servers.Server) -> None:
    with server.raw() as connection:
        assert dripped(connection, HELLO[:5] + bytes(400)) < 200


def test_a_dripping_head_has_one_deadline(server: servers.Server) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 400
    with server.connect() as connection:
        assert dripped(connection, head) < 200


def test_heads_that_never_end_keep_no_thread(server: servers.Server) -> None:
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(3 * THREADS)]
        for each in slow:
            each.sendall(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert answered(server)
        assert all(is_open(each) or ssl_is_open(each) for each in slow)
        assert all(closed(each) for each in slow)


def ssl_is_open(connection: ssl.SSLSocket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except (ssl.SSLWantReadError, BlockingIOError):
        return True


def test_idle_clients_keep_no_thread(server: servers.Server) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(server.client()) for _ in range(10 * THREADS)]
        for client in idle:
            assert client.ask("POST", "/filter", b"{}")[0] == 200
        assert answered(server)
        # None of them was closed for it.
        addresses = [client.connection.sock.getsockname() for client in idle]
        for client in idle:
            assert client.ask("POST", "/filter", b"{}")[0] == 200
        assert [client.connection.sock.getsockname() for client in idle] == addresses


def test_a_greeted_client_that_is_silent_is_idle_not_late(server: servers.Server) -> None:
    # Go opens connections ahead of need; closing one early could lose the call that it is then used for.
    with server.connect() as quiet, server.raw() as ungreeted:
        assert closed(ungreeted), "the time for a handshake is over"
        quiet.sendall(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        quiet.sendall(b"Content-Length: 2\r\n\r\n{}")
        assert quiet.recv(12) == b"HTTP/1.1 200"


def test_idle_connections_end_some_day(start: Starts) -> None:
    server = start(idle=1)
    with server.connect() as connection:
        assert closed(connection)


def test_a_client_that_sends_no_body_is_told_and_closed(start: Starts) -> None:
    server = start(threads=THREADS)
    head = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with server.connect() as connection:
        connection.sendall(head + b"Content-Length: 99\r\n\r\n{")
        assert connection.recv(12) == b"HTTP/1.1 408"
        assert closed(connection)
    assert answered(server)


def test_refused_clients_that_stay_do_not_stop_the_loop(server: servers.Server) -> None:
    # Each is refused at once, keeps its end open, and must not be waited for.
    with crowd(server, 50, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as sockets:
        assert answered(server)
        assert all(closed(each) for each in sockets)


def test_a_head_without_end_is_refused(server: servers.Server) -> None:
    with server.connect() as connection, contextlib.suppress(ConnectionError, ssl.SSLError):
        connection.sendall(b"GET /apis/v1/nodes HTTP/1.1\r\nX-Long: " + b"x" * 100_000)
        assert connection.recv(12) == b"HTTP/1.1 431"
    assert answered(server)


HEAD = b"%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("role", "line", "answer"),
    [
        # Nothing of these is answered before the body is there, or its deadline has passed.
        ("scheduler", b"POST /filter", b""),
        ("viewer", b"GET /apis/v1/nodes", b""),
        # These are answered at once: nobody may make such a call.
        ("scheduler", b"GET /apis/v1/nodes", b"HTTP/1.1 403"),
        ("viewer", b"POST /filter", b"HTTP/1.1 403"),
        ("viewer", b"GET /nowhere", b"HTTP/1.1 403"),
        ("nobody", b"GET /apis/v1/nodes", b"HTTP/1.1 403"),
    ],
)
def test_a_body_that_does_not_come_holds_no_thread(
    start: Starts, role: str, line: bytes, answer: bytes
) -> None:
    server = start(threads=2)
    servers.sign(server.certificates, "nobody", uris=("spiffe://elsewhere/nobody",))
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(server.connect(role)) for _ in range(70)]
        for each in held:
            each.sendall(HEAD % (line, 1))
        for _ in range(10):
            assert answered(server)
        if answer:
            assert all(each.recv(12) == answer for each in held)
            assert all(closed(each) for each in held)
        else:
            assert all(ssl_is_open(each) for each in held), (
                "they were closed before the threads could be held"
            )
        assert f"topolog_open_connections {0 if answer else 70}.0" in settled(server, 0 if answer else 70)


def settled(server: servers.Server, connections: int) -> str:
    """The metrics, once so many connections are open."""
    line = f"topolog_open_connections {connections}.0"
    servers.eventually(lambda: line in metrics(server), line)
    return metrics(server)


def test_answers_that_are_not_read_hold_no_thread(start: Starts) -> None:
    server = start(threads=2, reply=8_000_000)
    with contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(server.connect(role)) for role in ("scheduler", "viewer") for _ in range(8)
        ]
        for index, each in enumerate(slow):
            # Requests in a row: the answers to them are far more than the kernel keeps.
            line = b"POST /filter" if index < 8 else b"GET /apis/v1/large"
            each.sendall(HEAD % (line, 2) + b"{}" + HEAD % (line, 2) + b"{}")
        server.process.wait_for("Booting worker")
        for _ in range(5):
            with server.client() as client:
                client.connection.request("POST", "/filter", b"{}", {"Content-Type": "application/json"})
                response = client.connection.getresponse()
                assert (response.status, len(response.read())) == (200, 8_000_000)
        assert 'outcome="late"} 0.0' in metrics(server), "all of this was before the first deadline"
        # Who reads gets all of both answers; who does not is closed, without a thread either.
        reader = slow[0].makefile("rb")
        for _ in range(2):
            assert reader.readline().startswith(b"HTTP/1.1 200")
            length = next(
                int(line[16:]) for line in iter(reader.readline, b"") if line.startswith(b"Content-Le")
            )
            while reader.readline() != b"\r\n":
                pass
            assert reader.read(length) == b"x" * 8_000_000
        late = f'outcome="late"}} {len(slow) - 1}.0'
        servers.eventually(lambda: late in metrics(server), late)


def test_denied_calls_are_logged_with_a_bound(start: Starts) -> None:
    server = start()
    for _ in range(30):
        with server.client("viewer") as client:
            assert client.ask("POST", "/filter", b"{}")[0] == 403
    lines = [json.loads(line) for line in server.process.lines if "call denied" in line]
    assert 1 <= len(lines) < 30
    servers.eventually(lambda: denied_later(server), "a line that says how many were left out")


def denied_later(server: servers.Server) -> bool:
    with server.client("viewer") as client:
        assert client.ask("POST", "/filter", b"{}")[0] == 403
    lines = [json.loads(line) for line in server.process.lines if "call denied" in line]
    return any(line["unlogged"] > 0 for line in lines)
