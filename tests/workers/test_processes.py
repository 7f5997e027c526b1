"""``python -m workers``: real processes, their health ports, their exit codes."""

import json
import pathlib
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from app.simulation.apiserver import faults
from app.store import schemas, stores
from app.store.log import batches
from app.store.server import connections, embedded
from tests.support import child_processes, declared
from tests.support.kube import odd_replies
from tests.support.store import crash_safe_server
from tests.support.workers import clusters, recordings, worker_processes
from workers import signals

SHORT = {"TOPOLOG_ELECTION_LEASE": "3", "TOPOLOG_ELECTION_RENEW": "2", "TOPOLOG_ELECTION_RETRY": "0.1"}


@pytest.fixture
def away(tmp_path: pathlib.Path, cluster: str) -> Iterator[embedded.Server]:
    """A stopped server with a store of this schema."""
    server = crash_safe_server.CrashSafeServer(tmp_path / "server", append_only=True)
    with connections.connect(server.url) as client:
        schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    server.kill()
    yield server
    server.stop()


@pytest.mark.parametrize("command", ["record", "control", "audit"])
def test_a_worker_becomes_ready_and_ends_by_a_signal(
    start: worker_processes.Start, store: stores.Store, cluster_side: clusters.Cluster, command: str
) -> None:
    cluster_side.node("n")
    port = child_processes.free_port()
    process = start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: worker_processes.ask(port, "/readyz")[0] == 200, "it is ready")
    assert worker_processes.ask(port, "/livez") == (200, "ok\n")
    assert worker_processes.ask(port, "/else")[0] == 404
    assert ("n" in store.follower.catch_up().nodes) is (command == "record")
    process.send_signal(signal.SIGTERM)
    code, stderr = worker_processes.ended(process)
    assert (code, "Traceback" in stderr) == (0, False), stderr


def test_odd_answers_of_the_api_server_end_no_thread(
    start: worker_processes.Start, store: stores.Store, cluster_side: clusters.Cluster
) -> None:
    port, injected = child_processes.free_port(), cluster_side.server.faults
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port), **SHORT)
    recordings.eventually(lambda: worker_processes.ask(port, "/readyz")[0] == 200, "it is ready")
    html = odd_replies.answer(odd_replies.HTML)
    met = [
        injected.add(faults.FaultKind.RAW, faults.calls("PUT", "leases/topolog-recorder"), raw=html, times=2),
        *(
            injected.add(faults.FaultKind.RAW, faults.watches("nodes"), raw=odd_replies.watched(line))
            for line in (b'{"type":"ERROR","object":"gone"}', b'{"type":"ERROR","object":{"code":"x"}}')
        ),
    ]
    cluster_side.server.disconnect()
    recordings.eventually(lambda: all(fault.struck == fault.times for fault in met), "all of it was met")
    assert worker_processes.ask(port, "/livez") == (200, "ok\n")
    cluster_side.node("later")
    recordings.eventually(lambda: "later" in store.follower.catch_up().nodes, "it goes on")
    recordings.eventually(lambda: worker_processes.ask(port, "/readyz")[0] == 200, "it is ready again")
    process.send_signal(signal.SIGTERM)
    assert worker_processes.ended(process)[0] == 0


def test_readiness_names_what_is_missing(
    start: worker_processes.Start, store: stores.Store, cluster_side: clusters.Cluster
) -> None:
    port = child_processes.free_port()
    cluster_side.server.stop()
    start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(
        lambda: "cannot connect" in worker_processes.ask(port, "/readyz")[1],
        "readiness reports that the API server is away",
    )
    status, text = worker_processes.ask(port, "/readyz")
    assert status == 503
    assert "[-] election: lease default/topolog-recorder" in text
    assert worker_processes.ask(port, "/livez")[0] == 200


def test_a_recorder_that_was_replaced_reports_it(
    start: worker_processes.Start, store: stores.Store, cluster_side: clusters.Cluster
) -> None:
    port = child_processes.free_port()
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: worker_processes.ask(port, "/readyz")[0] == 200, "it is ready")
    # An epoch that no Lease of this API server ever had: only an operator can decide what is right.
    store.log.append(batches.Batch(events=()), batches.Guard(epoch=f"9{'0' * 20}", writer="another"))
    cluster_side.node("n")
    recordings.eventually(
        lambda: "topolog adopt" in worker_processes.ask(port, "/readyz")[1], "readiness names the remedy"
    )
    status, text = worker_processes.ask(port, "/readyz")
    assert status == 503
    assert "of another" in text
    assert "n" not in store.follower.catch_up().nodes
    assert process.poll() is None


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"TOPOLOG_STORE_URL": ""}, 3, "store.url is not set"),
        ({"TOPOLOG_SERVER_HEALTH_PORT": "none"}, 3, "topolog: invalid settings:\n  server.health_port"),
        ({"TOPOLOG_PLUGINS_ENABLED": "Nothing"}, 3, "topolog: invalid plugin settings: "),
        ({"TOPOLOG_STORE_URL": "nowhere"}, 3, "topolog: invalid settings:\n  store.url"),
        ({"TOPOLOG_KUBE_KUBECONFIG": "/nowhere/config"}, 3, "/nowhere/config"),
    ],
)
def test_a_configuration_error_ends_a_worker_with_one_message(
    start: worker_processes.Start, changes: dict[str, str], code: int, words: str
) -> None:
    process = start("record", **({"TOPOLOG_SERVER_HEALTH_PORT": str(child_processes.free_port())} | changes))
    found, stderr = worker_processes.ended(process)
    assert found == code
    assert words in stderr
    assert "Traceback" not in stderr


def test_a_store_of_another_schema_ends_a_worker(start: worker_processes.Start, store: stores.Store) -> None:
    store.client.hset(store.keys.meta, "schema", 1)
    code, stderr = worker_processes.ended(
        start("control", TOPOLOG_SERVER_HEALTH_PORT=str(child_processes.free_port()))
    )
    assert code == 4
    assert "run `topolog migrate up`" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("command", ["record", "control", "compact", "audit"])
def test_a_worker_waits_for_a_store_that_is_away(
    start: worker_processes.Start, away: embedded.Server, cluster: str, command: str
) -> None:
    port = child_processes.free_port()
    process = start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port), TOPOLOG_STORE_URL=away.url)
    recordings.eventually(
        lambda: "the store is away" in worker_processes.ask(port, "/readyz")[1], "readiness names the store"
    )
    assert (worker_processes.ask(port, "/readyz")[0], worker_processes.ask(port, "/livez")[0]) == (503, 200)
    away.start()
    recordings.eventually(lambda: worker_processes.ask(port, "/readyz")[0] == 200, "it is ready")
    process.send_signal(signal.SIGTERM)
    code, stderr = worker_processes.ended(process)
    reported = [
        line["error"]
        for line in map(json.loads, stderr.splitlines())
        if line["event"] == "waiting for the store"
    ]
    assert (code, len(reported)) == (0, len(set(reported))), stderr


def test_a_worker_that_waits_ends_by_a_signal(start: worker_processes.Start, away: embedded.Server) -> None:
    port = child_processes.free_port()
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port), TOPOLOG_STORE_URL=away.url)
    recordings.eventually(lambda: worker_processes.ask(port, "/livez")[0] == 200, "it waits")
    process.send_signal(signal.SIGTERM)
    code, stderr = worker_processes.ended(process)
    assert (code, "Traceback" in stderr) == (0, False), stderr


def test_a_port_that_stays_taken_has_a_message_and_an_exit_code(start: worker_processes.Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, stderr = worker_processes.ended(start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port)))
    assert code == 6
    assert f"cannot listen on server.health_port 127.0.0.1:{port}: Address already in use" in stderr
    assert "Traceback" not in stderr


def test_a_port_that_is_free_soon_is_waited_for(start: worker_processes.Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port))
        # It has begun to connect here when it looks for the port, or not even that.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
    recordings.eventually(lambda: worker_processes.ask(port, "/livez")[0] == 200, "it has the port")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has no IPv6")
def test_a_worker_serves_its_health_port_on_all_addresses_of_ipv6(start: worker_processes.Start) -> None:
    port = child_processes.free_port()
    start("compact", TOPOLOG_SERVER_BIND="::", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: worker_processes.ask(port, "/livez", "[::1]")[0] == 200, "IPv6 is answered")
    assert worker_processes.ask(port, "/livez") == (200, "ok\n")


def test_a_client_that_sends_nothing_is_disconnected_without_a_line(start: worker_processes.Start) -> None:
    port = child_processes.free_port()
    process = start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: worker_processes.ask(port, "/livez")[0] == 200, "it listens")
    with socket.create_connection(("127.0.0.1", port), timeout=recordings.LIMIT) as silent:
        assert silent.recv(1) == b""
    process.send_signal(signal.SIGTERM)
    code, stderr = worker_processes.ended(process)
    assert (code, [line for line in stderr.splitlines() if not line.startswith("{")]) == (0, []), stderr


def test_a_port_of_an_address_that_is_not_here_is_a_wrong_setting(start: worker_processes.Start) -> None:
    changes = {
        "TOPOLOG_SERVER_BIND": "192.0.2.1",
        "TOPOLOG_SERVER_HEALTH_PORT": str(child_processes.free_port()),
    }
    code, stderr = worker_processes.ended(start("record", **changes))
    assert (code, "Traceback" in stderr) == (3, False), stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_handler_does_not_stop_anything_itself(number: signal.Signals) -> None:
    """It interrupts the main thread, which may hold a lock that stopping needs."""
    former = {each: signal.getsignal(each) for each in signals.ENDING}
    stopped = threading.Event()
    by: list[threading.Thread] = []

    def stop() -> None:
        by.append(threading.current_thread())
        stopped.set()

    try:
        signals.stopping(stop)
        signal.raise_signal(number)
        assert stopped.wait(recordings.LIMIT)
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
    assert by != [threading.main_thread()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_arrive_in_a_crowd_end_a_worker_once(
    start: worker_processes.Start, number: signal.Signals
) -> None:
    port = child_processes.free_port()
    process = start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: worker_processes.ask(port, "/readyz")[0] == 200, "it is ready")
    for _ in range(5):
        process.send_signal(number)
    code, stderr = worker_processes.ended(process)
    assert (code, "Traceback" in stderr) == (0, False), stderr
