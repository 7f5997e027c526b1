"""Unexpected request bodies are refused by their headers and not read."""

import contextlib
import json
import time

import pytest

from app.serving.http import bodies
from tests.support.extender import echo_application, server_processes

HEAD = b"POST /filter HTTP/1.1\r\nHost: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"


def exchange(server: server_processes.Server, sent: bytes) -> tuple[int, str, bool]:
    """Send bytes; return status, reason code and whether the connection stayed open for another call."""
    with server.connect() as connection:
        connection.sendall(sent)
        answer = connection.makefile("rb")
        status = int(answer.readline().split()[1])
        headers = dict(
            line.decode().strip().lower().split(": ", 1) for line in iter(answer.readline, b"\r\n")
        )
        body = answer.read(int(headers["content-length"]))
        reason = json.loads(body).get("reasonCode", "") if body.startswith(b"{") else ""
        try:
            connection.sendall(HEAD + JSON + b"Content-Length: 2\r\n\r\n{}")
            stays = answer.readline().startswith(b"HTTP/1.1 200")
        except OSError:
            stays = False
        return status, reason, stays


def test_a_valid_body_is_accepted_and_the_connection_kept_open(shared: server_processes.Server) -> None:
    assert exchange(shared, HEAD + JSON + b"Content-Length: 2\r\n\r\n{}") == (200, "", True)


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        (JSON, 411, "LengthRequired"),
        (JSON + b"Transfer-Encoding: chunked\r\n", 411, "LengthRequired"),
        (JSON + b"Content-Length: 4194305\r\n", 413, "BodyTooLarge"),
        (JSON + b"Content-Length: 999999999999999999999999\r\n", 413, "BodyTooLarge"),
        (JSON + b"Content-Length: 2\r\nContent-Encoding: gzip\r\n", 415, "UnsupportedMediaType"),
        (JSON + b"Content-Length: 2\r\nContent-Encoding: br\r\n", 415, "UnsupportedMediaType"),
        (b"Content-Length: 2\r\n", 415, "UnsupportedMediaType"),
        (b"Content-Type: text/plain\r\nContent-Length: 2\r\n", 415, "UnsupportedMediaType"),
        (
            b"Content-Type: application/json; charset=utf-16\r\nContent-Length: 2\r\n",
            415,
            "UnsupportedMediaType",
        ),
    ],
)
def test_bodies_that_are_refused_by_their_headers(
    shared: server_processes.Server, headers: bytes, status: int, reason: str
) -> None:
    assert exchange(shared, HEAD + headers + b"\r\n") == (status, reason, False)


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Type: application/json; charset=utf-8\r\n",
        b'Content-Type: Application/JSON;charset="UTF-8"\r\n',
        JSON + b"Content-Encoding: identity\r\n",
    ],
)
def test_variants_of_plain_json_are_accepted(shared: server_processes.Server, headers: bytes) -> None:
    assert exchange(shared, HEAD + headers + b"Content-Length: 2\r\n\r\n{}") == (200, "", True)


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: -2\r\n",
        b"Content-Length: two\r\n",
        b"X-Folded: a\r\n b\r\nContent-Length: 2\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: sideways\r\n",
        b"Transfer-Encoding: sideways, chunked\r\n",
    ],
)
def test_an_ambiguous_request_ends_the_connection(shared: server_processes.Server, headers: bytes) -> None:
    with shared.connect() as connection:
        connection.sendall(HEAD + JSON + headers + b"\r\n{}" + HEAD)
        received = b""
        while piece := connection.recv(10_000):
            received += piece
    assert received.split(b" ")[1] == b"400"
    assert received.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("line", [b"POST /filter", b"GET /apis/v1/nodes", b"GET /nowhere"])
def test_a_chunked_request_is_refused_and_ends_the_connection(
    shared: server_processes.Server, line: bytes
) -> None:
    chunked = b" HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
    with shared.connect("viewer" if line.startswith(b"GET") else "scheduler") as connection:
        connection.sendall(line + chunked + b"2\r\n{}\r\n0\r\n\r\n" + HEAD)
        received = connection.makefile("rb").read()
    assert received.startswith(b"HTTP/1.1 403" if b"nowhere" in line else b"HTTP/1.1 411")
    assert received.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in received


@pytest.mark.parametrize("target", [b"//lag", b"//", b"///apis/v1/lag", b"http://elsewhere/lag"])
def test_an_unusual_target_is_forbidden(shared: server_processes.Server, target: bytes) -> None:
    assert exchange(shared, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") == (
        403,
        "Forbidden",
        False,
    )


@pytest.mark.parametrize(("version", "status"), [(b"1.1", b"400"), (b"1.0", b"200")])
def test_http_1_1_requires_a_host_header(
    shared: server_processes.Server, version: bytes, status: bytes
) -> None:
    with shared.connect() as connection:
        connection.sendall(b"POST /filter HTTP/" + version + b"\r\n" + JSON + b"Content-Length: 2\r\n\r\n{}")
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 " + status)


def test_100_continue_is_sent_only_if_the_body_is_accepted(
    shared: server_processes.Server,
) -> None:
    with shared.connect() as connection:
        answer = connection.makefile("rb")
        connection.sendall(HEAD + JSON + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert (answer.readline(), answer.readline()) == (b"HTTP/1.1 100 Continue\r\n", b"\r\n")
        connection.sendall(b"{}")
        assert answer.readline() == b"HTTP/1.1 200 -\r\n"
    with shared.connect() as connection:
        connection.sendall(HEAD + JSON + b"Content-Length: 4194305\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 413"


@pytest.mark.parametrize("length", [0, 1, 16_383, 16_384, 16_385, 231_424, echo_application.BODY_LIMIT])
def test_a_body_arrives_completely(shared: server_processes.Server, length: int) -> None:
    with shared.client() as client:
        for _ in range(2):
            assert client.ask("POST", "/filter", b" " * length)[1]["length"] == length


def test_a_body_in_pieces_arrives_completely(shared: server_processes.Server) -> None:
    with shared.connect() as connection:
        connection.sendall(HEAD + JSON + b"Content-Length: 300\r\n\r\n" + b"x" * 7)
        for _ in range(293):
            connection.sendall(b"x")
        assert b"200" in connection.recv(12)


def test_an_oversized_body_is_refused_without_waiting_for_it(shared: server_processes.Server) -> None:
    status, _, _ = exchange(shared, HEAD + JSON + b"Content-Length: 900000000\r\n\r\n" + b"x" * 100_000)
    assert status == 413


def test_large_bodies_share_a_number_of_slots() -> None:
    body_limiter = bodies.BodyLimiter(1, above=10, budget=15)
    assert body_limiter.acquire(11)
    assert not body_limiter.acquire(11)
    assert body_limiter.acquire(10)
    body_limiter.release(11)
    assert body_limiter.acquire(11)


def test_small_bodies_share_a_memory_budget() -> None:
    body_limiter = bodies.BodyLimiter(1, above=10, budget=15)
    assert body_limiter.acquire(10)
    assert not body_limiter.acquire(6)
    assert body_limiter.acquire(5)
    body_limiter.release(10)
    assert body_limiter.acquire(6)


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "late"])
def test_a_call_that_waits_for_memory_gets_that_of_a_body_without_end(
    start: server_processes.Starts, cut: bool
) -> None:
    server = start(small_body=100, body=60.0 if cut else 1.0)
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(server.connect()) for _ in range(2)]
        for each in others:
            each.sendall(HEAD + JSON + b"Content-Length: 200\r\n\r\n{")
        waiting = stack.enter_context(server.connect())
        # The server has read the others before: their bodies have all the memory that there is.
        time.sleep(0.3)
        waiting.sendall(HEAD + JSON + b"Content-Length: 200\r\n\r\n{%199b" % b"}")
        time.sleep(0.3)
        if cut:
            others[0].close()
        answer = stack.enter_context(waiting.makefile("rb"))
        assert answer.readline().startswith(b"HTTP/1.1 200")
