"""``topolog watch`` and ``get -w`` while `topolog view` cannot be reached, or is busy."""

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from app import exit_codes
from tests.support import child_processes, commands

BOUND = 60
"""Seconds."""


class Listener:
    """Sends one canned response to each connection in turn, and then listens no more."""

    def __init__(self) -> None:
        self.port = child_processes.free_port()
        self.requests: list[list[str]] = []
        """The lines of each request."""
        self._thread = threading.Thread()

    @property
    def resumed(self) -> list[str]:
        """The Last-Event-ID of each request of a stream."""
        return [
            next((line.partition(": ")[2] for line in lines if line.startswith("Last-Event-ID")), "")
            for lines in self.requests
            if "/watch" in lines[0]
        ]

    def listen(self, *responses: bytes) -> None:
        """Respond so from now on."""
        self.join()
        listening = socket.create_server(("127.0.0.1", self.port))
        listening.settimeout(20)
        self._thread = threading.Thread(target=self._respond, args=(listening, responses), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the last response."""
        if self._thread.ident is not None:
            self._thread.join()

    def _respond(self, listening: socket.socket, responses: Sequence[bytes]) -> None:
        with listening:
            for response in responses:
                connection, _ = listening.accept()
                with connection:
                    received = b""
                    while not received.endswith(b"\r\n\r\n"):
                        received += connection.recv(65536)
                    self.requests.append(received.decode().split("\r\n"))
                    connection.sendall(response)


def stream(*offsets: int, kind: str = "NodeSeen", whole: bool = True) -> bytes:
    """A response with a message for each offset; one that is not whole breaks off inside of the body."""
    data = {"at": "2026-07-01T10:00:00Z", "type": kind, "name": "n", "object": "node:n", "data": {}}
    messages = b"".join(
        b"id: i/%d\nevent: %b\ndata: %b\n\n"
        % (offset, kind.encode(), json.dumps({"offset": offset, **data}).encode())
        for offset in offsets
    )
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n" % (len(messages), messages) + (b"0\r\n\r\n" if whole else b"")


def document(status: int, body: object) -> bytes:
    """A response of JSON."""
    encoded = json.dumps(body).encode()
    length = f"Content-Type: application/json\r\nContent-Length: {len(encoded)}"
    return f"HTTP/1.1 {status} Such\r\n{length}\r\n\r\n".encode() + encoded


def problem(status: int, message: str) -> bytes:
    return document(status, {"message": message, "reasonCode": "Such"})


@pytest.fixture
def viewer() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.join()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between two attempts, which take no time."""
    return pausing(monkeypatch, lambda pauses: None)


def pausing(monkeypatch: pytest.MonkeyPatch, then: Callable[[list[float]], None]) -> list[float]:
    """Call it with the pauses so far, instead of each pause."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        then(pauses)

    monkeypatch.setattr(time, "sleep", sleep)
    return pauses


def called(viewer: Listener, *arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.called(*arguments, "--server", f"http://127.0.0.1:{viewer.port}")


def watched(viewer: Listener, count: int = 9) -> subprocess.CompletedProcess[str]:
    return called(viewer, "watch", "-o", "name", "--count", str(count))


def test_a_watch_goes_on_behind_the_last_event(viewer: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken off, refused, answered as busy and as away, broken off again."""

    def next_listener(pauses: list[float]) -> None:
        if len(pauses) == 2:
            busy = problem(503, "the store is away"), problem(429, "retry later")
            viewer.listen(*busy, stream(7, whole=False), stream(8, 9))

    pauses = pausing(monkeypatch, next_listener)
    viewer.listen(stream(5, 6, whole=False))
    done = watched(viewer, 5)
    assert (done.returncode, done.stdout.split()) == (0, [f"events/{at}" for at in range(5, 10)]), done.stderr
    assert viewer.resumed == ["", "i/6", "i/6", "i/6", "i/7"]
    assert pauses == [1, 2, 4, 8, 1]
    first, second = done.stderr.splitlines()
    lost = f"topolog: the connection to http://127.0.0.1:{viewer.port} was lost"
    assert first == second == f"{lost}; trying again for {BOUND} s"


def test_a_watch_goes_on_where_a_stream_ends_as_planned(viewer: Listener, slept: list[float]) -> None:
    viewer.listen(stream(5, 6), stream(7))
    done = watched(viewer, 3)
    assert (done.returncode, done.stdout.split()) == (0, [f"events/{at}" for at in (5, 6, 7)]), done.stderr
    assert viewer.resumed == ["", "i/6"]
    assert (slept, done.stderr) == ([], "")


def test_a_watch_ends_with_the_failure_that_lasts(viewer: Listener, slept: list[float]) -> None:
    viewer.listen(stream(5))
    done = watched(viewer)
    assert (done.returncode, done.stdout) == (exit_codes.UNREACHABLE, "events/5\n")
    assert sum(slept) == BOUND
    assert slept == sorted(slept)
    noted, failed = done.stderr.splitlines()
    assert noted.endswith(f"trying again for {BOUND} s")
    assert failed.startswith(f"topolog: http://127.0.0.1:{viewer.port} is unreachable: ")


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, exit_codes.USAGE), (403, exit_codes.UNREACHABLE), (410, exit_codes.NEGATIVE)],
)
def test_a_watch_that_cannot_be_resumed_ends(
    viewer: Listener, slept: list[float], status: int, code: int
) -> None:
    viewer.listen(stream(5), problem(status, "not resumed"))
    done = watched(viewer)
    assert (done.returncode, done.stderr) == (code, "topolog: not resumed\n")
    assert slept == []


@pytest.mark.parametrize("status", [429, 503])
def test_a_watch_does_not_begin_at_a_server_that_is_busy(
    viewer: Listener, slept: list[float], status: int
) -> None:
    viewer.listen(problem(status, "retry later"))
    done = watched(viewer)
    assert (done.returncode in (exit_codes.STORE, exit_codes.UNREACHABLE), done.stdout) == (True, "")
    assert slept == []


def test_an_interrupt_ends_a_pause(viewer: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: list[float]) -> None:
        raise KeyboardInterrupt

    pausing(monkeypatch, interrupted)
    viewer.listen(stream(5))
    assert watched(viewer).returncode == exit_codes.INTERRUPTED


def test_a_list_that_is_watched_is_read_again(viewer: Listener, slept: list[float]) -> None:
    """Its server is away between a message of the stream and the list."""

    def nodes(*names: str) -> bytes:
        metadata = {"position": "i/9", "asOf": "", "continue": None, "remaining": 0}
        return document(200, {"items": [{"name": name} for name in names], "metadata": metadata})

    viewer.listen(
        stream(5, 6, 7, kind="head"),
        nodes("a"),
        problem(503, "the store is away"),
        nodes("a", "b"),
        problem(410, "not resumed"),
    )
    done = called(viewer, "get", "nodes", "-w", "-o", "name")
    assert (done.returncode, done.stdout.split()) == (exit_codes.NEGATIVE, ["nodes/a", "nodes/b"]), (
        done.stderr
    )
    assert viewer.resumed == ["", "i/7"]
    assert slept == [1]
    assert done.stderr.splitlines() == [
        "topolog: the store is away; trying again for 60 s",
        "topolog: not resumed",
    ]
