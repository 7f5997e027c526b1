"""Requests on the fast path get the same responses as those that gunicorn parses."""

import gc
import json
import select
import socket
import weakref
import wsgiref.types
from collections.abc import Iterable, Iterator
from typing import IO

import pytest
from gunicorn import config

from app.serving.http import fast_path
from tests.support.extender import echo_application, server_processes

AGENT = b"User-Agent: Go-http-client/1.1\r\n"
JSON = b"Content-Type: application/json\r\n"
GZIP = b"Accept-Encoding: gzip\r\n"
MORE = b"X-More: of it\r\n"
"""With this header, gunicorn parses the request."""


def request(
    body: bytes = b"{}", *, path: bytes = b"/filter", more: bytes = b"", length: bytes | None = None
) -> bytes:
    """A request as formatted by Go's net/http."""
    declared = b"%d" % len(body) if length is None else length
    head = b"POST %b HTTP/1.1\r\nHost: localhost:8443\r\n" % path + AGENT
    return head + b"Content-Length: %b\r\n" % declared + JSON + GZIP + more + b"\r\n" + body


def answers(
    server: server_processes.Server, sent: bytes, count: int = 1, name: str = "scheduler"
) -> list[tuple[str, dict[str, str], bytes]]:
    """Send bytes and read `count` responses: status line, headers and body."""
    with server.connect(name) as connection:
        connection.sendall(sent)
        answer = connection.makefile("rb")
        return [read for _ in range(count) for read in one(answer)]


def one(answer: IO[bytes]) -> Iterator[tuple[str, dict[str, str], bytes]]:
    status = answer.readline().decode().strip()
    if status:
        lines = iter(answer.readline, b"\r\n")
        headers = dict(line.decode().strip().split(": ", 1) for line in lines)
        yield status, headers, answer.read(int(headers["Content-Length"]))


def test_the_application_cannot_distinguish_the_parsers(shared: server_processes.Server) -> None:
    usual, other = (
        json.loads(answers(shared, request(path=b"/apis/v1/simulate", more=more), name="viewer")[0][2])
        for more in (b"", MORE)
    )
    assert other.pop("HTTP_X_MORE") == "of it"
    for found in (usual, other):
        assert found.pop("REMOTE_PORT").isdigit()
    assert usual == other


def test_a_caller_cannot_distinguish_the_parsers(shared: server_processes.Server) -> None:
    usual, other = (answers(shared, request(b"{}" * 100, more=more))[0] for more in (b"", MORE))
    for _, headers, _ in (usual, other):
        assert headers.pop("Date").endswith(" GMT")
    assert usual == other
    assert usual[0].startswith("HTTP/1.1 200")


def test_pipelined_requests_are_answered_in_order(shared: server_processes.Server) -> None:
    sent = [request(b" " * length, more=more) for length in (2, 40_000, 3) for more in (b"", MORE, b"")]
    found = answers(shared, b"".join(sent), len(sent))
    assert [json.loads(body)["length"] for _, _, body in found] == [2] * 3 + [40_000] * 3 + [3] * 3


@pytest.mark.parametrize("more", [b"", MORE])
def test_a_caller_without_the_role_gets_a_403_and_is_closed(
    shared: server_processes.Server, more: bytes
) -> None:
    with shared.connect() as connection:
        connection.sendall(request(path=b"/apis/v1/flags", more=more) + request())
        answer = connection.makefile("rb")
        found = [(status, headers["Connection"]) for status, headers, _ in one(answer)]
        assert answer.read() == b""
    assert found == [("HTTP/1.1 403 Forbidden", "close")]


@pytest.mark.parametrize("more", [b"", MORE])
def test_a_client_that_is_still_sending_can_read_its_refusal(
    shared: server_processes.Server, more: bytes
) -> None:
    denied = request(b" " * 2_000_000, path=b"/apis/v1/flags", more=more)
    with shared.connect() as connection:
        connection.sendall(denied[:10_000])
        assert select.select([connection], [], [], 10)[0], "no response before the body is complete"
        connection.sendall(denied[10_000:])
        assert [status for status, _, _ in one(connection.makefile("rb"))] == ["HTTP/1.1 403 Forbidden"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request().replace(b"Host", b"host"), "200"),
        (request().replace(AGENT, b""), "200"),
        (request().replace(JSON, JSON * 2), "400"),
        (request(more=b"Content-Length: 3\r\n"), "400"),
        (request(length=b"+2"), "400"),
        (request(length=b"2 "), "200"),
        (request().replace(b"\r\nHost", b"\r\n Host"), "400"),
        (request().replace(AGENT, b"User-Agent: a\x00b\r\n"), "400"),
        (request(path=b"/fil%74er"), "200"),
        (request(path=b"/filter?x=1"), "200"),
        (request(more=b"Transfer-Encoding: chunked\r\n"), "400"),
        (request().replace(b"HTTP/1.1", b"HTTP/1.0"), "200"),
        (request().replace(b"POST", b"PUT"), "405"),
    ],
)
def test_unusual_heads_are_parsed_by_gunicorn(
    shared: server_processes.Server, sent: bytes, status: str
) -> None:
    assert fast_path.HEAD.match(request())
    assert not fast_path.HEAD.match(sent)
    assert answers(shared, sent)[0][0].split()[1] == status


def test_a_failing_application_is_a_500_and_ends_the_connection(shared: server_processes.Server) -> None:
    for more in (b"", MORE):
        found = answers(shared, request(echo_application.FATAL, more=more) + request(), 2)
        assert [status.split()[1] for status, _, _ in found] == ["500"]


class Pieces:
    """A response in pieces that must be closed."""

    closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from (b"b", b"c")

    def close(self) -> None:
        self.closed = True


def run(
    headers: list[tuple[str, str]],
    answer: Iterable[bytes],
    written: bytes = b"",
    *,
    status: str = "200 OK",
    method: str = "GET",
) -> tuple[bytes, bytes]:
    """Return the head and body that are sent for an application's response."""

    def application(_: object, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        write = start(status, headers)
        if written:
            write(written)
        return answer

    return fast_path.Exchange({"REQUEST_METHOD": method}).run(application, keep_alive=True)


def test_a_response_in_pieces_is_joined_measured_and_closed() -> None:
    pieces = Pieces()
    head, body = run([("Connection", "close"), ("X-A", "b")], pieces, b"a")
    assert (body, pieces.closed) == (b"abc", True)
    assert head.startswith(b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 3\r\n")
    assert head.count(b"Connection: keep-alive") == head.count(b"Connection") == 1


@pytest.mark.parametrize("status", ["103 Early Hints", "204 No Content", "304 Not Modified"])
def test_a_status_without_a_body_has_no_length(status: str) -> None:
    for answer in ((), (b"ignored",)):
        head, body = run([("ETag", '"x"')], answer, status=status)
        assert head.startswith(f'HTTP/1.1 {status}\r\nETag: "x"\r\nServer: '.encode())
        assert (b"Content-Length" in head, body) == (False, b"")


def test_the_length_of_what_get_would_get_is_declared_by_the_application_alone() -> None:
    assert b"Content-Length" not in run([], (b"abc",), method="HEAD")[0]
    head, body = run([("Content-Length", "7")], (), method="HEAD")
    assert (head.count(b"Content-Length: 7\r\n"), body) == (1, b"")


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [(b"/nothing", b"", 403), (b"/filter", b"", 405), (b"/docs", b"Content-Length: 900000\r\n", 413)],
)
def test_a_refusal_of_head_has_no_body(
    shared: server_processes.Server, path: bytes, more: bytes, status: int
) -> None:
    name = "scheduler" if status == 405 else "viewer"
    with shared.connect(name) as connection:
        connection.sendall(b"HEAD %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (path, more))
        head, body = connection.makefile("rb").read().split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert body == b""


@pytest.mark.parametrize("headers", [[("Content-Length", "4")], [("X-A", "b\r\nX-B: c")]])
def test_invalid_response_headers_are_not_sent(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ValueError, match=r"declares|printable"):
        run(headers, (b"abc",))


@pytest.mark.parametrize("more", [b"", MORE])
def test_a_connection_that_ends_does_not_wait_for_the_collector(more: bytes) -> None:
    ours, theirs = socket.socketpair()
    place = ("127.0.0.1", 1)
    gc.disable()
    try:
        with ours, theirs:
            reader = fast_path.RequestReader(config.Config(), ours, place, place, 7.0)
            exchange = reader.read(request(b"", more=more))
            assert exchange.environ[fast_path.HUNG_UP]() is False
            theirs.close()
            assert exchange.environ[fast_path.HUNG_UP]() is True
            assert exchange.environ[fast_path.ENDS] == 7.0
            left = weakref.ref(reader)
            del reader, exchange
            assert left() is None
    finally:
        gc.enable()
