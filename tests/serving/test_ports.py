"""What a process does when ``accept`` fails, whichever of its ports it is."""

import contextlib
import errno
import http.client
import io
import socket
import threading
import types
import wsgiref.types
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import registry

from app.serving import introspection, ports, probe_server
from app.serving.access import authorization
from app.telemetry import probes
from tests.support.extender import server_processes

FAILURES = 3


class Exhausted(socket.socket):
    """A listener whose process has no file descriptor for a connection at first."""

    left = FAILURES

    def accept(self) -> tuple[socket.socket, Any]:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of listeners, which pass at once."""
    made: list[float] = []
    monkeypatch.setattr(ports, "time", types.SimpleNamespace(sleep=made.append))
    return made


def test_only_a_failure_that_passes_is_survived(pauses: list[float]) -> None:
    with ports.listen("127.0.0.1", 0) as listener:
        assert ports.accept(listener) is None, "another process has accepted it"
    with pytest.raises(OSError, match="Bad file descriptor"):
        ports.accept(listener)
    assert pauses == []


def test_the_plain_port_pauses_while_no_descriptor_is_left(pauses: list[float]) -> None:
    application = probes.application(dict, registry.CollectorRegistry())
    listener = Exhausted(fileno=ports.listen("127.0.0.1", 0).detach())
    host, port = listener.getsockname()
    connection = http.client.HTTPConnection(host, port, timeout=server_processes.PATIENCE)
    with probe_server.serving(listener, application), contextlib.closing(connection):
        connection.request("GET", "/livez")
        assert connection.getresponse().status == 200
    assert pauses == [ports.ACCEPT_PAUSE] * FAILURES


def test_the_introspection_process_pauses_while_no_descriptor_is_left(
    pauses: list[float],
) -> None:
    stopped = threading.Event()

    def application(_: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse) -> Iterable[bytes]:
        start("200 OK", [])
        return [b"answered"]

    with (
        contextlib.closing(introspection.Endpoint()) as endpoint,
        Exhausted(fileno=endpoint.listener.detach()) as listener,
    ):
        server = introspection.IntrospectionServer(listener, application)
        thread = threading.Thread(target=server.run, args=(lambda: not stopped.is_set(),))
        thread.start()
        remote = introspection.ForwardingApplication(endpoint.path, seconds=server_processes.PATIENCE)
        environ = {"PATH_INFO": "/", "wsgi.input": io.BytesIO(), authorization.IDENTITY: None}
        try:
            with contextlib.closing(remote):
                assert b"".join(remote(environ, lambda *_: lambda _: None)) == b"answered"
        finally:
            stopped.set()
            thread.join()
    assert pauses == [ports.ACCEPT_PAUSE] * FAILURES
