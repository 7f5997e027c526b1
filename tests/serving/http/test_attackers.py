"""Slow and malicious clients do not block others: none of them occupies a thread."""

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.serving.http import bodies, conn_metrics
from app.serving.tls import role_names
from tests.support.extender import server_processes

# Enough to hold all threads several times over; the servers here have four.
MANY = 200
THREADS = 4
HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(40)


@pytest.fixture
def server(start: server_processes.Starts) -> server_processes.Server:
    return start(threads=THREADS, handshake=2.0)


@contextlib.contextmanager
def crowd(server: server_processes.Server, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(server.raw()) for _ in range(count)]
        for each in sockets:
            each.sendall(sent)
        yield sockets


def answered(server: server_processes.Server) -> bool:
    """Return whether a well-behaved client on a new connection gets a response."""
    with server.client() as client:
        return client.ask("POST", "/filter", b"{}")[0] == 200


def closed(connection: socket.socket) -> bool:
    """Discard data until the other end closes."""
    connection.settimeout(server_processes.PATIENCE)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while connection.recv(10_000):
            pass
    return True


@pytest.mark.parametrize("sent", [b"", HELLO[:1], HELLO], ids=["silent", "one byte", "half a hello"])
def test_many_incomplete_handshakes_do_not_block_others(start: server_processes.Starts, sent: bytes) -> None:
    server = start(threads=THREADS, handshake=8.0)
    with crowd(server, MANY, sent) as sockets:
        # Other clients are served while all of them are open.
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


def metrics(server: server_processes.Server) -> str:
    with socket.create_connection(("127.0.0.1", server.process.health_port())) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while piece := connection.recv(10_000):
            received += piece
    return received.decode()


def trickled(connection: socket.socket, data: bytes) -> int:
    """Send single bytes until the other end closes; return how many were sent."""
    sent = 0
    connection.settimeout(0.1)
    for position in range(len(data)):
        try:
            connection.sendall(data[position : position + 1])
            sent += 1
            if connection.recv(1000) == b"":
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return sent


def test_a_slow_handshake_has_one_deadline(server: server_processes.Server) -> None:
    with server.raw() as connection:
        assert trickled(connection, HELLO[:5] + bytes(400)) < 200


def test_a_slow_head_has_one_deadline(server: server_processes.Server) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 400
    with server.connect() as connection:
        assert trickled(connection, head) < 200


def test_unfinished_heads_occupy_no_thread(start: server_processes.Starts) -> None:
    server = start(threads=THREADS, handshake=8.0)
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


def test_idle_clients_occupy_no_thread(server: server_processes.Server) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(server.client()) for _ in range(10 * THREADS)]
        for client in idle:
            assert client.ask("POST", "/filter", b"{}")[0] == 200
        assert answered(server)
        # None of them was closed.
        addresses = [client.connection.sock.getsockname() for client in idle]
        for client in idle:
            assert client.ask("POST", "/filter", b"{}")[0] == 200
        assert [client.connection.sock.getsockname() for client in idle] == addresses


def test_a_silent_client_after_its_handshake_is_idle_not_late(server: server_processes.Server) -> None:
    # Go opens connections in advance; closing one early could lose the call that uses it.
    with server.connect() as quiet, server.raw() as no_handshake:
        assert closed(no_handshake), "the handshake has timed out"
        quiet.sendall(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        quiet.sendall(b"Content-Length: 2\r\n\r\n{}")
        assert quiet.recv(12) == b"HTTP/1.1 200"


def test_a_silent_client_without_a_role_is_closed_soon(server: server_processes.Server) -> None:
    server_processes.sign(server.certificates, "unknown", uris=("spiffe://elsewhere/unknown",))
    with server.connect("viewer") as viewer, server.connect("unknown") as unknown:
        assert closed(unknown)
        assert ssl_is_open(viewer)


def test_idle_connections_give_way_to_new_ones(start: server_processes.Starts) -> None:
    files = 160
    server = start(threads=THREADS, files=files)
    with (
        server.client() as scheduler,
        server.connect("operator") as operator,
        contextlib.ExitStack() as stack,
    ):
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
        kept = scheduler.connection.sock
        # Nearly twice as many as the server can have open, which is half of its files.
        idle = [stack.enter_context(server.connect("viewer")) for _ in range(files - 10)]
        assert answered(server)
        for _ in range(2):
            assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
            assert scheduler.connection.sock is kept
        assert ssl_is_open(operator), "a holder of one connection lost it"
        still_open = [ssl_is_open(each) for each in idle]
        assert still_open == sorted(still_open), "a later connection was closed before an earlier one"
        assert still_open[-1]
    evicted = f'topolog_connections_total{{outcome="evicted"}} {still_open.count(False)}.0'
    assert evicted in metrics(server)
    (line, *_) = (json.loads(each) for each in server.process.lines if "too many connections" in each)
    assert line["holder"] == role_names.uri("viewer")


def test_kube_scheduler_keeps_its_connection_while_few_more_can_be_opened(
    start: server_processes.Starts,
) -> None:
    files = 160
    server = start(threads=files // 4, files=files)
    with server.client() as scheduler, server.client("viewer") as viewer, contextlib.ExitStack() as stack:
        for _ in range(files // 4):
            stack.enter_context(server.connect("viewer"))
        assert viewer.ask("GET", "/apis/v1/nodes")[0] == 200
        assert viewer.connection.sock is None
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
        assert scheduler.connection.sock is not None


def test_idle_connections_are_closed(start: server_processes.Starts) -> None:
    server = start(idle=1)
    with server.connect() as connection:
        assert closed(connection)


def test_a_client_that_sends_no_body_gets_a_408_and_is_closed(start: server_processes.Starts) -> None:
    server = start(threads=THREADS)
    head = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with server.connect() as connection:
        connection.sendall(head + b"Content-Length: 99\r\n\r\n{")
        assert connection.recv(12) == b"HTTP/1.1 408"
        assert closed(connection)
    assert answered(server)


def test_refused_clients_that_stay_connected_do_not_block_the_loop(server: server_processes.Server) -> None:
    # Each is refused at once and keeps its end open.
    with crowd(server, 50, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as sockets:
        assert answered(server)
        assert all(closed(each) for each in sockets)


def test_an_oversized_head_is_refused(server: server_processes.Server) -> None:
    with server.connect() as connection, contextlib.suppress(ConnectionError, ssl.SSLError):
        connection.sendall(b"GET /apis/v1/nodes HTTP/1.1\r\nX-Long: " + b"x" * 100_000)
        assert connection.recv(12) == b"HTTP/1.1 431"
    assert answered(server)


HEAD = b"%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("role", "line", "answer"),
    [
        # No response before the body is complete or its deadline has passed.
        ("scheduler", b"POST /filter", b""),
        ("viewer", b"GET /apis/v1/nodes", b""),
        # Refused at once: the caller lacks the role.
        ("scheduler", b"GET /apis/v1/nodes", b"HTTP/1.1 403"),
        ("viewer", b"POST /filter", b"HTTP/1.1 403"),
        ("viewer", b"GET /nowhere", b"HTTP/1.1 403"),
        ("unknown", b"GET /apis/v1/nodes", b"HTTP/1.1 403"),
    ],
)
def test_a_missing_body_occupies_no_thread(
    start: server_processes.Starts, role: str, line: bytes, answer: bytes
) -> None:
    # Longer than 70 handshakes and heads take beside other work.
    server = start(threads=2, handshake=60.0, body=60.0)
    server_processes.sign(server.certificates, "unknown", uris=("spiffe://elsewhere/unknown",))
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
                "connections were closed before the threads could be occupied"
            )
        assert f"topolog_open_connections {0 if answer else 70}.0" in settled(server, 0 if answer else 70)


def test_questions_without_bodies_take_no_memory_of_the_verbs(start: server_processes.Starts) -> None:
    server = start(threads=2)
    possible = bodies.OTHER_BUDGET // bodies.QUESTION
    with contextlib.ExitStack() as stack:
        # Together they announce the memory of the verbs and more.
        held = [stack.enter_context(server.connect("viewer")) for _ in range(MANY + 57)]
        for each in held:
            each.sendall(HEAD % (b"POST /apis/v1/fit", bodies.QUESTION))
        assert answered(server)
        with server.client("viewer") as client:
            assert client.ask("GET", "/apis/v1/nodes")[0] == 200
        refused = f"topolog_introspection_refused_total {len(held) - possible}.0"
        server_processes.eventually(lambda: refused in metrics(server), refused)
    # The memory of the admitted ones is released.
    settled(server, 0)
    with server.client("viewer") as client:
        assert client.ask("POST", "/apis/v1/fit", b"x" * bodies.QUESTION)[0] == 200


def settled(server: server_processes.Server, connections: int) -> str:
    """The metrics, once the given number of connections is open."""
    line = f"topolog_open_connections {connections}.0"
    server_processes.eventually(lambda: line in metrics(server), line)
    return metrics(server)


def test_unread_responses_occupy_no_thread(start: server_processes.Starts) -> None:
    server = start(threads=2, reply=8_000_000, answer=20.0)
    with contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(server.connect(role)) for role in ("scheduler", "viewer") for _ in range(8)
        ]
        for index, each in enumerate(slow):
            # Pipelined requests: their responses exceed the kernel's buffers.
            line = b"POST /filter" if index < 8 else b"GET /apis/v1/large"
            each.sendall(HEAD % (line, 2) + b"{}" + HEAD % (line, 2) + b"{}")
        server.process.wait_for("Booting worker")
        for _ in range(5):
            with server.client() as client:
                client.connection.request("POST", "/filter", b"{}", {"Content-Type": "application/json"})
                response = client.connection.getresponse()
                assert (response.status, len(response.read())) == (200, 8_000_000)
        assert 'outcome="late"} 0.0' in metrics(server), "a deadline passed too early"
        # A client that reads gets both responses; the others are closed.
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
        server_processes.eventually(lambda: late in metrics(server), late)


def test_log_lines_of_denied_calls_are_limited(start: server_processes.Starts) -> None:
    server = start()
    began = time.monotonic()
    # Equal lines would be dropped by the filter of repeated lines, and some different ones are not.
    for number in range(60):
        with server.client("viewer") as client:
            assert client.ask("GET", f"/nowhere-{number}")[0] == 403
    # The line of a later call comes behind all of them.
    server_processes.eventually(lambda: denied_later(server), "a line with the number of suppressed lines")
    lines = denied(server)
    assert len({line["reason"] for line in lines}) == len(lines)
    assert len(lines) <= 1 + (time.monotonic() - began) / conn_metrics.SECONDS_BETWEEN_LINES


def denied(server: server_processes.Server) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.process.lines if "call denied" in line]


def denied_later(server: server_processes.Server) -> bool:
    with server.client("viewer") as client:
        assert client.ask("POST", "/filter", b"{}")[0] == 403
    return any(line["suppressed"] > 0 for line in denied(server))


@pytest.mark.parametrize("letters", [":", ":/", "//"])
def test_a_denied_path_of_any_letters_does_not_stop_the_loop(
    server: server_processes.Server, letters: str
) -> None:
    """Passwords are removed from its log line, in the loop: each letter must cost little."""
    with server.client("viewer") as client:
        assert client.ask("GET", f"/x{letters * 4_000}"[:4_000])[0] == 403
    assert answered(server)
    server_processes.eventually(lambda: bool(denied(server)), "the line of the denied call")
