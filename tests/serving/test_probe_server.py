"""The plain port of a process at its limit of threads."""

import contextlib
import http.client
import threading

import pytest
from prometheus_client import registry

from app.serving import ports, probe_server
from app.telemetry import probes
from tests.support import thread_limits
from tests.support.extender import server_processes


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
        connections = [
            stack.enter_context(
                contextlib.closing(http.client.HTTPConnection(host, port, timeout=server_processes.PATIENCE))
            )
            for _ in range(3)
        ]
        for connection in connections:
            connection.request("GET", "/readyz")
        assert begun.wait(server_processes.PATIENCE)
        going_on.set()
        assert [connection.getresponse().status for connection in connections] == [200] * 3
