"""The server process: its ports, its options and its shutdown."""

import dataclasses
import http.client
import os
import pathlib
import re
import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest

from app import settings
from app.serving import errors, ports, servers
from app.serving.access import roles
from app.serving.tls import rotation
from tests.support.extender import echo_application, server_processes


def probe(server: server_processes.Server, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(
        "127.0.0.1", server.process.health_port(), timeout=server_processes.PATIENCE
    )
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def test_the_plain_port_serves_only_probes_and_metrics(shared: server_processes.Server) -> None:
    assert probe(shared, "/livez") == (200, "ok\n")
    assert probe(shared, "/readyz") == (200, "[+] worker: ok\nready\n")
    status, metrics = probe(shared, "/metrics")
    assert status == 200
    for file in ("server", "ca"):
        assert f'topolog_certificate_expiry_timestamp_seconds{{file="{file}"}} ' in metrics
    for path in ("/", "/filter", "/apis/v1/nodes", "/debug/flags/s", "/livez/x", "/healthz"):
        assert probe(shared, path)[0] == 404
    assert probe(shared, "/livez", "POST")[0] == 405
    assert probe(shared, "/livez", "HEAD") == (200, "")


def test_idle_connections_do_not_block_the_plain_port(shared: server_processes.Server) -> None:
    address = ("127.0.0.1", shared.process.health_port())
    crowd = [socket.create_connection(address) for _ in range(300)]
    for each in crowd[::2]:
        each.sendall(b"GET /livez HTTP")
    assert probe(shared, "/livez") == (200, "ok\n")
    for each in crowd:
        each.close()


@pytest.mark.parametrize(
    "sent", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / SPDY/9\r\n\r\n"]
)
def test_the_plain_port_rejects_invalid_requests(shared: server_processes.Server, sent: bytes) -> None:
    address = ("127.0.0.1", shared.process.health_port())
    with socket.create_connection(address, server_processes.PATIENCE) as connection:
        connection.sendall(sent)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


def test_busy_threads_do_not_block_the_probes(start: server_processes.Starts) -> None:
    server = start(threads=2)
    busy = [server.connect("viewer") for _ in range(8)]
    for each in busy:
        each.sendall(b"GET /apis/v1/slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert probe(server, "/livez") == (200, "ok\n")
    for each in busy:
        assert each.recv(12) == b"HTTP/1.1 200"
        each.close()


def test_a_call_in_flight_is_completed_before_exit(start: server_processes.Starts) -> None:
    server = start()
    with server.connect("viewer") as connection, server.client() as idle:
        assert idle.ask("POST", "/filter", b"{}")[0] == 200
        connection.sendall(b"GET /apis/v1/slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.process.wait_for("a slow call began")
        server.process.signal(signal.SIGTERM)
        received = b""
        while piece := connection.recv(1000):
            received += piece
    assert received.endswith(b"done")
    assert server.process.wait() == 0
    server.process.wait_for("stopping was called")


def test_an_idle_connection_is_kept_as_long_as_the_options_allow(start: server_processes.Starts) -> None:
    server = start(stopping=60.0)
    with server.client() as idle:
        assert idle.ask("POST", "/filter", b"{}")[0] == 200
        server.process.signal(signal.SIGTERM)
        # Longer than gunicorn would keep it, shorter than the 5 s that calls in flight may take.
        time.sleep(2.5)
        assert idle.ask("POST", "/filter", b"{}")[0] == 200
    assert server.process.wait() == 0


def test_a_killed_worker_is_replaced(start: server_processes.Starts) -> None:
    server = start()
    pid = int(server.process.wait_for(r"Booting worker with pid: (\d+)")[1])
    os.kill(pid, signal.SIGKILL)
    server_processes.eventually(
        lambda: sum("Booting worker" in line for line in server.process.lines) == 2, "a new worker"
    )
    with server.client() as client:
        assert client.ask("POST", "/filter", b"{}")[0] == 200


def test_a_worker_exits_with_its_master_though_a_call_never_ends(start: server_processes.Starts) -> None:
    """The end of the pipe to the master ends it (parent_exit).

    Without the pipe, gunicorn notices that the master is gone, and its worker waits for this call: the test
    fails because that process never exits.
    """
    server = start(workers=2)
    health = server.process.health_port()
    server_processes.eventually(
        lambda: sum("Booting worker" in line for line in server.process.lines) == 2, "two workers"
    )
    pids = [int(pid) for line in server.process.lines for pid in re.findall(r"worker with pid: (\d+)", line)]
    assert len(pids) == 2
    try:
        # An idle connection does not keep the port open either.
        with server.client() as idle, server.connect("viewer") as busy:
            assert idle.ask("POST", "/filter", b"{}")[0] == 200
            busy.sendall(b"GET /apis/v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
            server.process.wait_for("an endless call began")
            server.process.signal(signal.SIGKILL)
            server_processes.eventually(lambda: not any(map(alive, pids)), "no worker is left")
            assert can_listen(server.port)
            assert can_listen(health)
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


def can_listen(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_several_workers_share_the_ports(start: server_processes.Starts) -> None:
    server = start(workers=2)
    for _ in range(6):
        with server.client() as client:
            assert client.ask("POST", "/filter", b"{}")[0] == 200
        assert probe(server, "/livez")[0] == 200
    # The counters of an arbitrary worker would be meaningless.
    status, body = probe(server, "/metrics")
    assert (status, "run replicas" in body) == (501, True)


def test_insecure_serving_is_plain_http_on_the_loopback(start: server_processes.Starts) -> None:
    server = start(insecure=True)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=server_processes.PATIENCE)
    client = server_processes.Client(connection)
    for length in (2, 100_000):
        assert client.ask("POST", "/filter", b" " * length) == (200, {"length": length, "who": "anonymous"})
    status, seen = client.ask("GET", "/apis/v1/nodes")
    assert (status, seen["scheme"], seen["nodelay"]) == (200, "http", True)
    connection.request("GET", "/apis/v1/nodes", headers={"Host": "a-page.example"})
    assert connection.getresponse().status == 403
    connection.close()


def test_insecure_serving_elsewhere_is_refused(
    launch: Callable[[echo_application.Plan], server_processes.Process],
) -> None:
    process = launch(echo_application.Plan(insecure=True, host="0.0.0.0"))
    assert process.wait() == 1
    assert "server.insecure requires a loopback address, not 0.0.0.0" in process.lines[0]


def test_contradictory_options_are_refused(certificates: pathlib.Path) -> None:
    rotating = rotation.RotatingContext(server_processes.pem_source(certificates, "server"))
    with pytest.raises(errors.BadOptions, match="choose one"):
        servers.check(servers.Options(insecure=True, host="127.0.0.1"), rotating)
    with pytest.raises(errors.BadOptions, match="topolog certs"):
        servers.check(servers.Options(), None)
    with pytest.raises(errors.BadOptions, match="at least one"):
        servers.check(servers.Options(threads=0), rotating)
    with pytest.raises(errors.BadOptions, match="not all interfaces"):
        servers.check(servers.Options(insecure=True), None)


def test_options_of_the_settings() -> None:
    options = servers.options_from(settings.Server())
    assert (options.port, options.health_port, options.threads) == (8443, 8081, 64)
    assert (options.limits.idle, options.limits.age) == (120, 3600)
    assert not options.insecure


@pytest.mark.parametrize("name", ["server.port", "view.port", "server.health_port"])
def test_a_port_in_use_is_reported(
    name: str, certificates: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "RETRY_SECONDS", 0.0)
    rotating = rotation.RotatingContext(server_processes.pem_source(certificates, "server"))
    parts = servers.Parts(
        load=lambda: echo_application.application(roles.RoleBindings(), b""), health=nothing
    )
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        free = servers.Options(host="127.0.0.1", port=0, health_host="127.0.0.1", health_port=0)
        taken = (
            dataclasses.replace(free, health_port=port)
            if name == "server.health_port"
            else dataclasses.replace(free, port=port, setting=name)
        )
        sentence = f"cannot listen on {name} 127.0.0.1:{port}: Address already in use"
        with pytest.raises(errors.PortTaken, match=f"^{re.escape(sentence)}$"):
            servers.serve(taken, parts, rotating=rotating)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has no IPv6")
@pytest.mark.parametrize("bind", [settings.Server().bind, "::"])
def test_a_listener_on_all_addresses_accepts_both_families(bind: str) -> None:
    with ports.listen(bind, 0) as listener:
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, listener.getsockname()[1]), timeout=10) as client:
                assert client.getpeername()[0] == host


def test_a_listener_on_all_addresses_accepts_ipv4_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with ports.listen(settings.Server().bind, 0) as listener:
        assert listener.family == socket.AF_INET
        with socket.create_connection(("127.0.0.1", listener.getsockname()[1]), timeout=10):
            pass


def test_an_address_that_the_machine_does_not_have_is_reported(certificates: pathlib.Path) -> None:
    rotating = rotation.RotatingContext(server_processes.pem_source(certificates, "server"))
    parts = servers.Parts(load=lambda: echo_application.application(roles.RoleBindings(), b""))
    with pytest.raises(errors.BadOptions, match=r"cannot listen on server\.port 192\.0\.2\.1:8443: "):
        servers.serve(servers.Options(host="192.0.2.1"), parts, rotating=rotating)


def nothing() -> Callable[..., list[bytes]]:
    return lambda *_: []


def test_concurrent_callers_get_their_responses(start: server_processes.Starts) -> None:
    server = start(threads=4)
    failures: list[str] = []

    def call() -> None:
        try:
            with server.client() as client:
                for _ in range(20):
                    if client.ask("POST", "/filter", b"x" * 50_000)[1]["length"] != 50_000:
                        failures.append("another length")
        except Exception as error:
            failures.append(repr(error))

    callers = [threading.Thread(target=call) for _ in range(12)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert failures == []
