"""Bodies that are not what kube-scheduler sends: refused by their head, and read no further."""

import json

import pytest

from app.serving import bodies
from tests.serving import echoing, servers

HEAD = b"POST /filter HTTP/1.1\r\nHost: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"


def said(server: servers.Server, sent: bytes) -> tuple[int, str, bool]:
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


def test_a_good_body_is_taken_and_the_connection_kept(shared: servers.Server) -> None:
    assert said(shared, HEAD + JSON + b"Content-Length: 2\r\n\r\n{}") == (200, "", True)


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
def test_what_is_refused_by_its_head(
    shared: servers.Server, headers: bytes, status: int, reason: str
) -> None:
    assert said(shared, HEAD + headers + b"\r\n") == (status, reason, False)


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Type: application/json; charset=utf-8\r\n",
        b'Content-Type: Application/JSON;charset="UTF-8"\r\n',
        JSON + b"Content-Encoding: identity\r\n",
    ],
)
def test_what_amounts_to_plain_json_is_taken(shared: servers.Server, headers: bytes) -> None:
    assert said(shared, HEAD + headers + b"Content-Length: 2\r\n\r\n{}") == (200, "", True)


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
def test_what_could_be_read_two_ways_ends_the_connection(shared: servers.Server, headers: bytes) -> None:
    with shared.connect() as connection:
        connection.sendall(HEAD + JSON + headers + b"\r\n{}" + HEAD)
        heard = b""
        while piece := connection.recv(10_000):
            heard += piece
    assert heard.split(b" ")[1] == b"400"
    assert heard.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("line", [b"POST /filter", b"GET /apis/v1/nodes", b"GET /nowhere"])
def test_a_chunked_request_is_refused_and_ends_the_connection(shared: servers.Server, line: bytes) -> None:
    chunked = b" HTTP/1.1\r\nHost: localhost\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
    with shared.connect("viewer" if line.startswith(b"GET") else "scheduler") as connection:
        connection.sendall(line + chunked + b"2\r\n{}\r\n0\r\n\r\n" + HEAD)
        heard = connection.makefile("rb").read()
    assert heard.startswith(b"HTTP/1.1 403" if b"nowhere" in line else b"HTTP/1.1 411")
    assert heard.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in heard


@pytest.mark.parametrize("target", [b"//lag", b"//", b"///apis/v1/lag", b"http://elsewhere/lag"])
def test_a_strange_target_is_an_error_like_all_others(shared: servers.Server, target: bytes) -> None:
    assert said(shared, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") == (
        403,
        "Forbidden",
        False,
    )


@pytest.mark.parametrize(("version", "status"), [(b"1.1", b"400"), (b"1.0", b"200")])
def test_a_request_names_its_host_from_http_1_1_on(
    shared: servers.Server, version: bytes, status: bytes
) -> None:
    with shared.connect() as connection:
        connection.sendall(b"POST /filter HTTP/" + version + b"\r\n" + JSON + b"Content-Length: 2\r\n\r\n{}")
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 " + status)


def test_a_client_that_waits_for_leave_to_send_gets_it_only_if_the_body_is_wanted(
    shared: servers.Server,
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


@pytest.mark.parametrize("length", [0, 1, 16_383, 16_384, 16_385, 231_424, echoing.BODY_LIMIT])
def test_a_body_arrives_whole(shared: servers.Server, length: int) -> None:
    with shared.client() as client:
        for _ in range(2):
            assert client.ask("POST", "/filter", b" " * length)[1]["length"] == length


def test_a_body_in_pieces_arrives_whole(shared: servers.Server) -> None:
    with shared.connect() as connection:
        connection.sendall(HEAD + JSON + b"Content-Length: 300\r\n\r\n" + b"x" * 7)
        for _ in range(293):
            connection.sendall(b"x")
        assert b"200" in connection.recv(12)


def test_a_large_body_that_nobody_sends_is_not_waited_for(shared: servers.Server) -> None:
    status, _, _ = said(shared, HEAD + JSON + b"Content-Length: 900000000\r\n\r\n" + b"x" * 100_000)
    assert status == 413


def test_few_large_bodies_at_a_time() -> None:
    turnstile = bodies.Turnstile(1, above=10, room=15)
    assert turnstile.enter(11)
    assert not turnstile.enter(11)
    assert turnstile.enter(10)
    turnstile.leave(11)
    assert turnstile.enter(11)


def test_small_bodies_share_a_bounded_room() -> None:
    turnstile = bodies.Turnstile(1, above=10, room=15)
    assert turnstile.enter(10)
    assert not turnstile.enter(6)
    assert turnstile.enter(5)
    turnstile.leave(10)
    assert turnstile.enter(6)
