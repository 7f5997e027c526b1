"""The plain port of a process whose threads are busy, or that is at its limit of threads."""

import contextlib
import http.client
import threading
from collections.abc import Iterator

import pytest
from prometheus_client import core, registry

from app.serving import ports, probe_server
from app.telemetry import probes
from tests.support import thread_limits
from tests.support.extender import server_processes


def connect(stack: contextlib.ExitStack, host: str, port: int) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(host, port, timeout=server_processes.PATIENCE)
    return stack.enter_context(contextlib.closing(connection))


def test_probes_wait_for_a_thread_where_no_further_one_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, going_on = threading.Event(), threading.Event()

    def measure() -> dict[str, str | None]:
        begun.set()
        going_on.wait(server_processes.PATIENCE)
        return {}

    listener = ports.listen("127.0.0.1", 0)
    host, port = listener.getsockname()
    application = probes.application(measure, registry.CollectorRegistry())
    with contextlib.ExitStack() as stack:
        stack.enter_context(probe_server.serving(listener, application))
        monkeypatch.setattr(threading.Thread, "start", thread_limits.refuse)
        connections = [connect(stack, host, port) for _ in range(3)]
        for connection in connections:
            connection.request("GET", "/readyz")
        assert begun.wait(server_processes.PATIENCE)
        going_on.set()
        assert [connection.getresponse().status for connection in connections] == [200] * 3


def test_liveness_is_answered_while_scrapes_have_all_threads() -> None:
    begun, going_on = threading.Semaphore(0), threading.Event()

    class Slow(registry.Collector):
        def collect(self) -> Iterator[core.Metric]:
            begun.release()
            going_on.wait()
            yield from ()

    metrics = registry.CollectorRegistry(auto_describe=False)
    metrics.register(Slow())
    listener = ports.listen("127.0.0.1", 0)
    host, port = listener.getsockname()
    with contextlib.ExitStack() as stack:
        stack.enter_context(probe_server.serving(listener, probes.application(dict, metrics)))
        stack.callback(going_on.set)
        scrapes = [connect(stack, host, port) for _ in range(probe_server.THREADS)]
        for scrape in scrapes:
            scrape.request("GET", "/metrics")
        assert all(begun.acquire(timeout=server_processes.PATIENCE) for _ in scrapes)
        alive = connect(stack, host, port)
        alive.request("GET", "/livez")
        response = alive.getresponse()
        assert (response.status, response.read()) == (200, b"ok\n")
        going_on.set()
        assert [scrape.getresponse().status for scrape in scrapes] == [200] * len(scrapes)
