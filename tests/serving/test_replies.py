"""Replies that are not read take the memory of a bounded number of them, and hold up no other caller."""

import contextlib
import socket
import urllib.request
from collections.abc import Iterator
from unittest import mock

from app.serving import gunicorn_worker, replies
from app.serving.http import connections
from tests.support.extender import server_processes

CAPACITY = gunicorn_worker.INTROSPECTION_THREADS + gunicorn_worker.INTROSPECTION_QUEUE
HEAD = b"GET /apis/v1/large HTTP/1.1\r\nHost: localhost\r\n\r\n"
REPLY = 16_000_000
"""More than the kernel's buffers take."""


def status_of(connection: socket.socket) -> int:
    """Return the status of the reply, of which no more is read."""
    connection.settimeout(server_processes.PATIENCE)
    head = b""
    while len(head) < 12:
        head += connection.recv(12 - len(head))
    return int(head[9:12])


def metrics(server: server_processes.Server) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.process.health_port()}/metrics") as reply:
        found: bytes = reply.read()
    return found.decode()


@contextlib.contextmanager
def unread(server: server_processes.Server, role: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections whose replies have begun, and are not read."""
    with contextlib.ExitStack() as stack:
        held: list[socket.socket] = []
        for _ in range(count):
            held.append(stack.enter_context(server.connect(role)))
            held[-1].sendall(HEAD)
            assert status_of(held[-1]) == 200
        yield held


def test_unread_replies_are_a_bounded_number(start: server_processes.Starts) -> None:
    server = start(threads=2, reply=REPLY, answer=60.0)
    with unread(server, "viewer", CAPACITY):
        for _ in range(3):
            with server.connect("viewer") as more:
                more.sendall(HEAD)
                assert status_of(more) == 429
        with server.client() as scheduler:
            scheduler.connection.request("POST", "/filter", b"{}", {"Content-Type": "application/json"})
            assert scheduler.connection.getresponse().status == 200


def test_a_connection_goes_on_after_a_refusal_of_head(start: server_processes.Starts) -> None:
    """A body would be read as the next response."""
    server = start(threads=2, reply=REPLY, answer=60.0)
    asked = b"%b /apis/v1/small HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with unread(server, "viewer", CAPACITY), server.connect("viewer") as more:
        more.settimeout(server_processes.PATIENCE)
        more.sendall(asked % b"HEAD" + asked % b"GET")
        reader = more.makefile("rb")
        for _ in range(2):
            assert reader.readline() == b"HTTP/1.1 429 Too Many Requests\r\n"
            while reader.readline() != b"\r\n":
                pass


def test_the_place_of_a_reply_that_was_read_or_abandoned_is_free(start: server_processes.Starts) -> None:
    server = start(threads=2, reply=REPLY, answer=60.0)
    with unread(server, "viewer", CAPACITY) as held:
        reader = held[0].makefile("rb")
        while reader.readline() != b"\r\n":
            pass
        assert len(reader.read(REPLY)) == REPLY
        held[1].close()

        def answered() -> bool:
            with server.connect("viewer") as more:
                more.sendall(HEAD)
                return status_of(more) == 200

        server_processes.eventually(answered, "a reply after one was read")
        server_processes.eventually(answered, "a reply after one was abandoned")


def test_another_caller_gets_the_place_of_an_unread_reply(start: server_processes.Starts) -> None:
    server = start(threads=2, reply=REPLY, answer=60.0)
    with unread(server, "viewer", CAPACITY), unread(server, "operator", 2):
        with server.connect("viewer") as more:
            more.sendall(HEAD)
            assert status_of(more) == 429
        late = 'outcome="late"} 2.0'
        server_processes.eventually(lambda: late in metrics(server), late)


def conn(holder: str, since: float, state: connections.State = connections.State.SENDING) -> mock.Mock:
    return mock.Mock(holder=holder, since=since, state=state, deadline=60.0)


def test_the_caller_with_the_most_unread_replies_gives_way() -> None:
    places = replies.ReplyPlaces(5)
    many = [conn("many", since) for since in (3.0, 1.0, 2.0)]
    few = conn("few", 0.0)
    at_work = conn("many", 0.0, connections.State.WORKING)
    held = (*many, few, at_work)

    def closed() -> list[mock.Mock]:
        return [each for each in held if each.deadline == 0.0]

    for each in held:
        assert places.take(each)
    assert not places.take(conn("many", 9.0)), "a caller makes no place for itself"
    assert closed() == []
    assert places.take(conn("new", 9.0, connections.State.WORKING))
    assert closed() == [many[1]]
    assert not places.take(conn("few", 9.0)), "it would have as many as the other"
    assert closed() == [many[1]]
