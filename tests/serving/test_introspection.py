"""A separate process serves the introspection API, and verbs never wait for it."""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import threading
import time
import wsgiref.types
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from gunicorn import arbiter

from app.serving import gunicorn_worker, introspection, priority
from app.serving.access import authorization
from app.serving.tls import role_names
from tests.support.extender import echo_application, server_processes

REQUEST = b"GET /apis/v1/%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
CAPACITY = gunicorn_worker.INTROSPECTION_THREADS + gunicorn_worker.INTROSPECTION_QUEUE


@pytest.fixture
def server(start: server_processes.Starts) -> server_processes.Server:
    return start(introspection=True, threads=2)


def booted(server: server_processes.Server) -> list[int]:
    """The pids of the workers in start order."""
    found = (re.search(r"Booting worker with pid: (\d+)", line) for line in server.process.lines)
    return [int(match[1]) for match in found if match]


def test_the_introspection_process_has_a_lower_priority(server: server_processes.Server) -> None:
    server_processes.eventually(lambda: len(booted(server)) == 2, "two processes")
    with server.client("viewer") as client:
        status, document = client.ask("POST", "/apis/v1/simulate?at=7", b'"a body"')
    assert status == 200
    (other,) = set(booted(server)) - {document["pid"]}
    assert document["nice"] >= os.getpriority(os.PRIO_PROCESS, other) + priority.NICENESS
    assert (document["query"], document["body"]) == ("at=7", '"a body"')
    assert document["who"] == role_names.uri("viewer")
    with server.client() as client:
        assert client.ask("POST", "/filter", b"{}") == (
            200,
            {"length": 2, "who": server_processes.scheduler_uri()},
        )


def test_an_introspection_process_that_dies_is_replaced_and_verbs_continue(
    server: server_processes.Server,
) -> None:
    with server.client("viewer") as viewer, server.client() as scheduler:
        assert viewer.ask("GET", "/apis/v1/nodes")[0] == 200
        status, document = viewer.ask("GET", "/apis/v1/fatal")
        assert (status, document["reasonCode"]) == (503, "Unavailable")
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
        # The next request waits at the socket until the new process listens.
        status, document = viewer.ask("GET", "/apis/v1/nodes")
        assert (status, document["pid"]) == (200, booted(server)[2])


def test_verbs_continue_while_the_introspection_process_cannot_start(
    start: server_processes.Starts, tmp_path: pathlib.Path
) -> None:
    obstacle = tmp_path / "obstacle"
    server = start(introspection=True, threads=2, obstacle=str(obstacle), forwarded=0.5)
    with server.client("viewer") as viewer, server.client() as scheduler:

        def status() -> int:
            return viewer.ask("GET", "/apis/v1/nodes")[0]

        server_processes.eventually(lambda: status() == 200, "questions are answered")
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
        obstacle.touch()
        assert viewer.ask("GET", "/apis/v1/fatal")[0] == 503
        server.process.wait_for("the introspection process cannot start")
        server_processes.eventually(lambda: len(booted(server)) >= 4, "another process is started")
        # On the same connection: the worker is the same.
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
        assert status() == 503
        obstacle.unlink()
        server_processes.eventually(lambda: status() == 200, "questions are answered again")


def test_a_worker_of_verbs_that_cannot_start_ends_the_server(
    launch: Callable[[echo_application.Plan], server_processes.Process], tmp_path: pathlib.Path
) -> None:
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    process = launch(echo_application.Plan(insecure=True, obstacle=str(obstacle)))
    assert process.wait() == arbiter.Arbiter.WORKER_BOOT_ERROR


@pytest.mark.parametrize("group", [False, True])
def test_a_hangup_ends_the_server_as_sigterm_does(server: server_processes.Server, group: bool) -> None:
    with server.client("viewer") as viewer, server.client() as scheduler:
        assert viewer.ask("GET", "/apis/v1/nodes")[0] == 200
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
    for pid in booted(server) if group else ():
        os.kill(pid, signal.SIGHUP)
    server.process.signal(signal.SIGHUP)
    assert server.process.wait() == 0


def test_a_call_in_progress_is_answered_at_a_hangup_of_the_process_group(
    start: server_processes.Starts,
) -> None:
    server = start(threads=2)
    with server.client("viewer") as viewer, ThreadPoolExecutor() as threads:
        slow = threads.submit(viewer.ask, "GET", "/apis/v1/slow")
        server.process.wait_for("a slow call began")
        for pid in booted(server):
            os.kill(pid, signal.SIGHUP)
        server.process.signal(signal.SIGHUP)
        assert slow.result()[0] == 200
    assert server.process.wait() == 0


def test_signals_for_other_workers_are_ignored(server: server_processes.Server) -> None:
    for number in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2):
        server.process.signal(number)
        server.process.wait_for(f'"signal ignored","signal":"{number.name}"')
    with server.client("viewer") as viewer, server.client() as scheduler:
        assert viewer.ask("GET", "/apis/v1/nodes")[0] == 200
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
    assert len(booted(server)) == 2


def test_a_connection_for_which_no_thread_can_be_started_ends_no_introspection_process(
    server: server_processes.Server,
) -> None:
    with server.client("viewer") as first, server.client("viewer") as second:
        assert second.ask("GET", "/apis/v1/nodes")[0] == 200
        assert first.ask("GET", "/apis/v1/poolless")[0] == 200
        slow = threading.Thread(target=first.ask, args=("GET", "/apis/v1/slower"))
        slow.start()
        server.process.wait_for("a slower call began")
        # Another thread of the worker, whose connection to the process is new.
        status, document = second.ask("GET", "/apis/v1/nodes")
        assert (status, document["reasonCode"]) == (503, "Unavailable")
        slow.join()
        assert first.ask("GET", "/apis/v1/nodes")[0] in (200, 503)
    assert len(booted(server)) == 2, "no process was replaced"


def test_an_error_of_the_introspection_process_is_reported_and_logged(
    server: server_processes.Server,
) -> None:
    with server.client("viewer") as client:
        status, document = client.ask("GET", "/apis/v1/fails")
        assert (status, document["reasonCode"]) == (500, "InternalError")
        server.process.wait_for("request failed")
        assert client.ask("GET", "/apis/v1/nodes")[0] == 200


def test_the_socket_is_removed_on_exit(start: server_processes.Starts) -> None:
    server = start(introspection=True)
    with server.client("viewer") as client:
        assert client.ask("GET", "/apis/v1/nodes")[0] == 200
    # Other servers on the machine may open and close theirs meanwhile.
    (path,) = {sockets()[inode] for inode in inodes(booted(server)[0]) & sockets().keys()}
    assert pathlib.Path(path).exists()
    assert server.process.stop() == 0
    assert path not in sockets().values()
    assert not pathlib.Path(path).parent.exists()


def sockets() -> dict[str, str]:
    """Inode -> path of the open sockets of introspection processes."""
    lines = map(str.split, pathlib.Path("/proc/net/unix").read_text().splitlines())
    return {line[6]: line[7] for line in lines if re.search(r"/topolog-\S*/introspection$", line[-1])}


def inodes(pid: int) -> set[str]:
    """The inodes of the sockets that a process has open."""
    found = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        # A descriptor may be closed while they are listed.
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(link))
    return {target[8:-1] for target in found if target.startswith("socket:[")}


@contextlib.contextmanager
def slow_requests(server: server_processes.Server, count: int) -> Iterator[list[ssl.SSLSocket]]:
    """`count` connections, each with a slow request in progress."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(server.connect("viewer")) for _ in range(count)]
        for each in found:
            each.sendall(REQUEST % b"slow")
        yield found


def test_too_many_requests_are_refused_with_retry_after(server: server_processes.Server) -> None:
    with slow_requests(server, CAPACITY + 5) as connections, server.client() as scheduler:
        server.process.wait_for("a slow call began")
        assert scheduler.ask("POST", "/filter", b"{}")[0] == 200
        answers = [one(each) for each in connections]
        statuses = [status for status, _, _ in answers]
        assert statuses.count(b"200") >= CAPACITY
        refused = [answer for answer in answers if answer[0] != b"200"]
        assert refused
        for status, headers, body in refused:
            assert (status, headers["retry-after"]) == (b"429", "1")
            assert json.loads(body)["reasonCode"] == "TooManyRequests"
    counted = re.search(r"^topolog_introspection_refused_total (\S+)$", metrics(server), re.MULTILINE)
    assert counted
    assert float(counted[1]) >= len(refused)


def test_a_client_that_retries_early_is_not_read_before_the_pause_has_passed(
    server: server_processes.Server,
) -> None:
    def waited() -> float:
        with slow_requests(server, CAPACITY + 5) as connections:
            impatient = next(each for each in reversed(connections) if one(each)[0] == b"429")
            started = time.monotonic()
            impatient.sendall(REQUEST % b"nodes")
            one(impatient)
            return time.monotonic() - started

    # The pause began when the refusal was sent, which a busy machine may read late.
    assert any(waited() > 0.5 for _ in range(5))


def one(connection: ssl.SSLSocket) -> tuple[bytes, dict[str, str], bytes]:
    answer = connection.makefile("rb")
    status = answer.readline().split()[1]
    lines = (line.decode().strip().lower() for line in iter(answer.readline, b"\r\n"))
    headers = dict(line.split(": ", 1) for line in lines)
    return status, headers, answer.read(int(headers["content-length"]))


def metrics(server: server_processes.Server) -> str:
    with socket.create_connection(("127.0.0.1", server.process.health_port())) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.makefile("rb").read().decode()


# -- client and server alone ------------------------------------------------------------------------


def test_a_slow_request_is_a_503() -> None:
    port = introspection.Endpoint()
    try:
        assert (
            request(introspection.ForwardingApplication(port.path, seconds=0.05))[0]
            == "503 Service Unavailable"
        )
    finally:
        port.close()


def test_a_large_response_arrives_and_a_closed_connection_is_replaced() -> None:
    port = introspection.Endpoint()

    def large(_: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        start("200 OK", [("X-A", "b")])
        return [b"a" * 3_000_000, b"b"]

    stopped = threading.Event()
    forwarded = introspection.IntrospectionServer(port.listener, large)
    thread = threading.Thread(target=forwarded.run, args=(lambda: not stopped.is_set(),))
    thread.start()
    try:
        remote = introspection.ForwardingApplication(port.path)
        for _ in range(2):
            assert request(remote) == ("200 OK", [("X-A", "b")], b"a" * 3_000_000 + b"b")
            connection = remote._local.connection
            connection.shutdown(socket.SHUT_RDWR)
        remote.close()
    finally:
        stopped.set()
        thread.join()
        port.close()


def request(remote: introspection.ForwardingApplication) -> tuple[str, list[tuple[str, str]], bytes]:
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start(status: str, headers: list[tuple[str, str]], _: object = None, /) -> Callable[[bytes], object]:
        started.append((status, headers))
        return lambda _: None

    environ = {"PATH_INFO": "/", "wsgi.input": io.BytesIO(), authorization.IDENTITY: None}
    body = b"".join(remote(environ, start))
    return *started[0], body
