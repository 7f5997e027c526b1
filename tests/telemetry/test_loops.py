"""Loops: which errors they survive, how they pause, and when /livez fails."""

import os
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import registry

from app.serving import probe_server
from app.telemetry import loops, probes
from tests.support.monitoring import samples
from workers import probe_server as worker_probing

dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
"""For tests in which a thread dies on purpose."""


class Failing:
    """A body that fails a number of times; records the pauses instead of waiting."""

    def __init__(self, times: int, error: type[BaseException] = ValueError) -> None:
        self.left = times
        self.error = error
        self.pauses: list[float] = []
        self.stopped = False

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise self.error("odd")

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return self.stopped


def failures(name: str) -> float:
    return samples.value("topolog_loop_failures_total", loop=name)


@pytest.fixture
def died() -> Iterator[loops.Loop]:
    """A loop whose thread was ended by a BaseException."""
    loop = loops.Loop("mortal", lambda: sys.exit(1), wait=threading.Event().wait).start()
    while loop.alive:
        pass
    yield loop
    loop.join(1.0)


def test_a_failing_loop_is_retried_with_growing_jittered_pauses() -> None:
    body, before = Failing(12), failures("survivor")
    loops.Loop("survivor", body, wait=body.wait, longest=10.0, rng=random.Random(3)).run()
    assert failures("survivor") == before + 12
    bounds = [min(10.0, loops.FIRST_PAUSE * 2**at) for at in range(12)]
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(body.pauses, bounds, strict=True))
    assert len({pause / bound for pause, bound in zip(body.pauses, bounds, strict=True)}) == 12


@pytest.mark.parametrize("error", [OSError, RecursionError, MemoryError, AssertionError, KeyError])
def test_no_kind_of_exception_ends_a_loop(error: type[Exception]) -> None:
    body = Failing(2, error)
    loops.Loop("any", body, wait=body.wait).run()
    assert body.left == 0


def test_a_fatal_error_ends_a_loop() -> None:
    body = Failing(1, KeyError)
    with pytest.raises(KeyError):
        loops.Loop("fatal", body, wait=body.wait, fatal=(LookupError,)).run()
    assert body.pauses == []


def test_a_loop_that_is_stopped_during_a_pause_ends() -> None:
    body = Failing(5)
    body.stopped = True
    loops.Loop("stopped", body, wait=body.wait).run()
    assert body.left == 4
    assert "stopped" not in loops.dead()


def test_the_error_of_a_pausing_loop_is_shown() -> None:
    stop, body = threading.Event(), Failing(1)
    loop = loops.Loop("shown", body, wait=lambda seconds: stop.wait(60)).start()
    try:
        while "shown" not in loops.problems():
            pass
        assert loops.problems()["shown"] == "ValueError: odd"
        assert "shown" not in loops.dead()
    finally:
        stop.set()
        loop.join(10)
    assert "shown" not in loops.problems()


def test_a_loop_that_returns_is_not_dead() -> None:
    loop = loops.Loop("done", lambda: None, wait=threading.Event().wait).start()
    while loop.alive:
        pass
    assert "done" not in loops.dead()


def request(ask: Callable[[str], bytes], path: str) -> tuple[bytes, bytes]:
    head, _, body = ask(path).partition(b"\r\n\r\n")
    return head.split(b" ")[1], body


def extender(path: str) -> bytes:
    return probe_server.respond(
        probes.application(dict, registry.CollectorRegistry()), f"GET {path} HTTP/1.1\r\n\r\n".encode()
    )


def worker(path: str) -> bytes:
    """The health port of a worker, over a socket."""
    with (
        worker_probing.serving("127.0.0.1", 0, dict, registry.CollectorRegistry()) as port,
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("ask", [extender, worker])
def test_the_health_ports_of_all_processes_answer_alike(ask: Callable[[str], bytes]) -> None:
    assert request(ask, "/readyz") == (b"200", b"ready\n")
    assert request(ask, "/") == (b"404", b"this port serves /livez, /readyz and /metrics\n")
    head = ask("/livez").partition(b"\r\n\r\n")[0].splitlines()
    assert {b"Content-Type: text/plain; charset=utf-8", b"Cache-Control: no-store"} <= set(head)


@dies
@pytest.mark.parametrize("ask", [extender, worker])
def test_livez_fails_once_the_thread_of_a_loop_has_died(
    ask: Callable[[str], bytes], died: loops.Loop
) -> None:
    status, body = request(ask, "/livez")
    assert status == b"503"
    assert b"the thread 'mortal' has died" in body
    died.join(1.0)
    assert request(ask, "/livez") == (b"200", b"ok\n")


@dies
def test_threads_of_the_parent_are_not_dead_in_a_forked_child(died: loops.Loop) -> None:
    assert loops.dead() == ["mortal"]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, repr(loops.dead()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"[]"
    os.close(reader)
    os.close(writer)
