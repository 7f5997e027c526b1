"""Questions are answered by a process of their own, a few at a time, and verbs never wait for them."""

import contextlib
import io
import json
import pathlib
import re
import socket
import ssl
import threading
import time
import wsgiref.types
from collections.abc import Callable, Iterable, Iterator

import pytest

from app.serving import accepting, gates, identities, viewing
from tests.serving import servers
from tests.serving.conftest import Starts

QUESTION = b"GET /apis/v1/%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
PLACES = accepting.QUESTIONS + accepting.WAITING


@pytest.fixture
def server(start: Starts) -> servers.Server:
    return start(view=True, threads=2)


def booted(server: servers.Server) -> list[int]:
    """The workers' processes, in the order in which they were started."""
    found = (re.search(r"Booting worker with pid: (\d+)", line) for line in server.process.lines)
    return [int(match[1]) for match in found if match]


def test_another_process_answers_with_a_lower_priority(server: servers.Server) -> None:
    servers.eventually(lambda: len(booted(server)) == 2, "two processes")
    with server.client("viewer") as client:
        status, told = client.ask("POST", "/apis/v1/simulate?at=7", b'"a body"')
    assert status == 200
    assert told["pid"] == booted(server)[1]
    assert told["nice"] >= viewing.NICENESS
    assert (told["query"], told["body"]) == ("at=7", '"a body"')
    assert told["who"] == identities.uri("viewer")
    with server.client() as client:
        assert client.ask("POST", "/filter", b"{}") == (200, {"length": 2, "who": servers.scheduler_uri()})


def test_an_answering_process_that_dies_is_replaced_and_verbs_go_on(server: servers.Server) -> None:
    with server.client("viewer") as viewer, server.client() as scheduler:
        assert viewer.ask("GET", "/apis/v1/nodes")[0] == 200
        status, told = viewer.ask("GET", "/apis/v1/fatal")
        assert (status, told["reasonCode"]) == (503, "Unavailable")
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
        # The next question waits at the socket until the new process is there.
        status, told = viewer.ask("GET", "/apis/v1/nodes")
        assert (status, told["pid"]) == (200, booted(server)[2])


def test_a_fault_of_the_answering_process_is_told_and_logged(server: servers.Server) -> None:
    with server.client("viewer") as client:
        status, told = client.ask("GET", "/apis/v1/fails")
        assert (status, told["reasonCode"]) == (500, "InternalError")
        server.process.wait_for("a question could not be answered")
        assert client.ask("GET", "/apis/v1/nodes")[0] == 200


def test_nothing_is_left_behind(start: Starts) -> None:
    others = sockets()
    server = start(view=True)
    with server.client("viewer") as client:
        assert client.ask("GET", "/apis/v1/nodes")[0] == 200
    made = sockets() - others
    assert made
    assert server.process.stop() == 0
    assert not made & sockets()


def sockets() -> set[str]:
    """The sockets of this kind that somebody listens at."""
    return set(re.findall(r"\S*/topolog-\S*/view$", pathlib.Path("/proc/net/unix").read_text(), re.MULTILINE))


@contextlib.contextmanager
def asking(server: servers.Server, count: int) -> Iterator[list[ssl.SSLSocket]]:
    """So many connections, on each of which a slow question was asked."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(server.connect("viewer")) for _ in range(count)]
        for each in found:
            each.sendall(QUESTION % b"slow")
        yield found


def test_too_many_questions_are_refused_with_the_time_to_come_back(server: servers.Server) -> None:
    with asking(server, PLACES + 5) as connections, server.client() as scheduler:
        server.process.wait_for("a slow call began")
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
        answers = [one(each) for each in connections]
        statuses = [status for status, _, _ in answers]
        assert statuses.count(b"200") >= PLACES
        refused = [answer for answer in answers if answer[0] != b"200"]
        assert refused
        for status, headers, body in refused:
            assert (status, headers["retry-after"]) == (b"429", "1")
            assert json.loads(body)["reasonCode"] == "TooManyRequests"
    assert "topolog_introspection_refused_total" in metrics(server)


def test_who_does_not_wait_is_not_read_before_the_time_has_passed(server: servers.Server) -> None:
    with asking(server, PLACES + 5) as connections:
        impatient = next(each for each in reversed(connections) if one(each)[0] == b"429")
        began = time.monotonic()
        impatient.sendall(QUESTION % b"nodes")
        one(impatient)
        assert time.monotonic() - began > 0.5


def one(connection: ssl.SSLSocket) -> tuple[bytes, dict[str, str], bytes]:
    answer = connection.makefile("rb")
    status = answer.readline().split()[1]
    lines = (line.decode().strip().lower() for line in iter(answer.readline, b"\r\n"))
    headers = dict(line.split(": ", 1) for line in lines)
    return status, headers, answer.read(int(headers["content-length"]))


def metrics(server: servers.Server) -> str:
    with socket.create_connection(("127.0.0.1", server.process.health_port())) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.makefile("rb").read().decode()


# -- the two ends alone ------------------------------------------------------------------------


def test_a_question_that_takes_too_long_is_given_up() -> None:
    port = viewing.Port()
    try:
        assert asked(viewing.Remote(port.path, seconds=0.05))[0] == "503 Service Unavailable"
    finally:
        port.close()


def test_a_large_answer_arrives_whole_and_a_kept_connection_that_was_closed_is_replaced() -> None:
    port = viewing.Port()

    def large(_: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        start("200 OK", [("X-A", "b")])
        return [b"a" * 3_000_000, b"b"]

    going = threading.Event()
    answering = viewing.Answering(port.listener, large)
    thread = threading.Thread(target=answering.run, args=(lambda: not going.is_set(),))
    thread.start()
    try:
        remote = viewing.Remote(port.path)
        for _ in range(2):
            assert asked(remote) == ("200 OK", [("X-A", "b")], b"a" * 3_000_000 + b"b")
            kept = remote._mine.connection
            kept.shutdown(socket.SHUT_RDWR)
        remote.close()
    finally:
        going.set()
        thread.join()
        port.close()


def asked(remote: viewing.Remote) -> tuple[str, list[tuple[str, str]], bytes]:
    said: list[tuple[str, list[tuple[str, str]]]] = []

    def start(status: str, headers: list[tuple[str, str]], _: object = None, /) -> Callable[[bytes], object]:
        said.append((status, headers))
        return lambda _: None

    environ = {"PATH_INFO": "/", "wsgi.input": io.BytesIO(), gates.IDENTITY: None}
    body = b"".join(remote(environ, start))
    return *said[0], body
