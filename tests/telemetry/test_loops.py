"""Loops: which errors they survive, how they pause, and when /livez fails."""

import os
import random
import sys
import threading
from collections.abc import Iterator

import pytest
from prometheus_client import registry

from app.serving import probe_server
from app.telemetry import loops, probes
from tests.support.monitoring import samples

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
    loop = loops.Loop("mortal", lambda: sys.exit(1)).start()
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
    loop = loops.Loop("done", lambda: None).start()
    while loop.alive:
        pass
    assert "done" not in loops.dead()


def test_a_loop_has_the_event_that_stops_it() -> None:
    loop = loops.Loop("own", lambda: loop.wait(60)).start()
    assert (loop.stopped, loop.alive) == (False, True)
    loop.stop(10)
    assert (loop.stopped, loop.alive) == (True, False)
    assert "own" not in loops.dead()


def test_a_loop_is_stopped_during_the_pause_after_a_failure() -> None:
    body = Failing(1_000)
    loop = loops.Loop("pausing", body, rng=random.Random(3)).start()
    loop.end()
    loop.join(10)
    assert not loop.alive


def test_a_step_is_repeated_until_the_loop_is_stopped_also_if_it_fails() -> None:
    steps, third = Failing(1), threading.Event()
    runs: list[None] = []

    def step() -> float:
        runs.append(None)
        steps()
        if len(runs) == 3:
            third.set()
            return 60.0
        return 0.0

    loop = loops.repeated("steps", step, longest=0.01).start()
    assert third.wait(30)
    loop.stop(10)
    assert (loop.alive, len(runs)) == (False, 3)


def test_a_loop_that_was_made_before_a_fork_is_started_and_stopped_after_it() -> None:
    loop = loops.repeated("forked", lambda: 60.0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        loop.start()
        loop.stop(10)
        os.write(writer, b"alive" if loop.alive else b"ended")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"ended"
    assert (loop.stopped, loop.alive) == (False, False)
    os.close(reader)
    os.close(writer)


def ask(path: str) -> tuple[bytes, list[bytes], bytes]:
    """Status, header lines and body that the health port of a process answers."""
    application = probes.application(dict, registry.CollectorRegistry())
    head, _, body = probe_server.respond(application, f"GET {path} HTTP/1.1\r\n\r\n".encode()).partition(
        b"\r\n\r\n"
    )
    first, *headers = head.splitlines()
    return first.split(b" ")[1], headers, body


def test_a_health_port_answers_probes_and_names_its_paths() -> None:
    status, headers, body = ask("/readyz")
    assert (status, body) == (b"200", b"ready\n")
    assert {b"Content-Type: text/plain; charset=utf-8", b"Cache-Control: no-store"} <= set(headers)
    status, _, body = ask("/")
    assert (status, body) == (b"404", b"this port serves /livez, /readyz and /metrics\n")


@dies
def test_livez_fails_once_the_thread_of_a_loop_has_died(died: loops.Loop) -> None:
    status, _, body = ask("/livez")
    assert status == b"503"
    assert b"the thread 'mortal' has died" in body
    died.join(1.0)
    status, _, body = ask("/livez")
    assert (status, body) == (b"200", b"ok\n")


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
