"""``python -m workers``: real processes, their health ports, their exit codes."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from app import settings
from app.domain import events
from app.simulation.apiserver import faults
from app.store import audit_reports, schemas, stores
from app.store.log import batches, logs
from app.store.server import connections, embedded
from tests.support import child_processes, declared
from tests.support.extender import api_worlds
from tests.support.kube import odd_replies
from tests.support.store import crash_safe_server, writers
from tests.support.workers import clusters, recordings
from workers import signals

Start = Callable[..., subprocess.Popen[str]]
SHORT = {"TOPOLOG_ELECTION_LEASE": "3", "TOPOLOG_ELECTION_RENEW": "2", "TOPOLOG_ELECTION_RETRY": "0.1"}
ROOT = pathlib.Path(__file__).parent.parent.parent


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError as away:
        return 0, str(away)


@pytest.fixture
def kubeconfig(cluster_side: clusters.Cluster, tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": cluster_side.server.url}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return path


@pytest.fixture
def start(
    store: stores.Store, store_server: embedded.Server, cluster: str, kubeconfig: pathlib.Path
) -> Iterator[Start]:
    """Starts a worker with settings by environment; ends it in the end."""
    started: list[subprocess.Popen[str]] = []

    def run(command: str, **changes: str) -> subprocess.Popen[str]:
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TOPOLOG_")},
            "PYTHONPATH": str(ROOT),
            "TOPOLOG_CLUSTER": cluster,
            "TOPOLOG_STORE_URL": store_server.url,
            "TOPOLOG_STORE_REQUIRE_DURABLE": "false",
            "TOPOLOG_KUBE_KUBECONFIG": str(kubeconfig),
            "TOPOLOG_SERVER_BIND": "127.0.0.1",
            **changes,
        }
        arguments = [sys.executable, "-m", "workers", command]
        process = subprocess.Popen(
            arguments, env={k: v for k, v in environ.items() if v}, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def away(tmp_path: pathlib.Path, cluster: str) -> Iterator[embedded.Server]:
    """A stopped server with a store of this schema."""
    server = crash_safe_server.CrashSafeServer(tmp_path / "server", append_only=True)
    with connections.connect(server.url) as client:
        schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    server.kill()
    yield server
    server.stop()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and standard error."""
    _, stderr = process.communicate(timeout=recordings.LIMIT)
    return process.returncode, stderr


@pytest.mark.parametrize("command", ["record", "control", "audit"])
def test_a_worker_becomes_ready_and_ends_by_a_signal(
    start: Start, store: stores.Store, cluster_side: clusters.Cluster, command: str
) -> None:
    cluster_side.node("n")
    port = child_processes.free_port()
    process = start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    assert ask(port, "/livez") == (200, "ok\n")
    assert ask(port, "/else")[0] == 404
    assert ("n" in store.follower.catch_up().nodes) is (command == "record")
    process.send_signal(signal.SIGTERM)
    code, stderr = ended(process)
    assert (code, "Traceback" in stderr) == (0, False), stderr


def test_odd_answers_of_the_api_server_end_no_thread(
    start: Start, store: stores.Store, cluster_side: clusters.Cluster
) -> None:
    port, injected = child_processes.free_port(), cluster_side.server.faults
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port), **SHORT)
    recordings.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
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
    assert ask(port, "/livez") == (200, "ok\n")
    cluster_side.node("later")
    recordings.eventually(lambda: "later" in store.follower.catch_up().nodes, "it goes on")
    recordings.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready again")
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0


def test_readiness_names_what_is_missing(
    start: Start, store: stores.Store, cluster_side: clusters.Cluster
) -> None:
    port = child_processes.free_port()
    cluster_side.server.stop()
    start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(
        lambda: "cannot connect" in ask(port, "/readyz")[1], "readiness reports that the API server is away"
    )
    status, text = ask(port, "/readyz")
    assert status == 503
    assert "[-] election: lease default/topolog-recorder" in text
    assert ask(port, "/livez")[0] == 200


def test_a_recorder_that_was_replaced_reports_it(
    start: Start, store: stores.Store, cluster_side: clusters.Cluster
) -> None:
    port = child_processes.free_port()
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    # An epoch that no Lease of this API server ever had: only an operator can decide what is right.
    store.log.append(batches.Batch(events=()), batches.Guard(epoch=f"9{'0' * 20}", writer="another"))
    cluster_side.node("n")
    recordings.eventually(lambda: "topolog adopt" in ask(port, "/readyz")[1], "readiness names the remedy")
    status, text = ask(port, "/readyz")
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
    start: Start, changes: dict[str, str], code: int, words: str
) -> None:
    process = start("record", **({"TOPOLOG_SERVER_HEALTH_PORT": str(child_processes.free_port())} | changes))
    found, stderr = ended(process)
    assert found == code
    assert words in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("command", ["control", "audit", "compact"])
def test_a_worker_is_not_ready_with_the_log_of_another_cluster(
    start: Start, store: stores.Store, cluster_side: clusters.Cluster, command: str
) -> None:
    cluster_side.server.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": "second"}})
    port = child_processes.free_port()
    process = start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: "[+] identity: ok" in ask(port, "/readyz")[1], "no process has claimed it")
    store.log.append(batches.Batch(events=(), kubernetes="first"), logs.NO_GUARD)
    recordings.eventually(
        lambda: "UID first, here it has second" in ask(port, "/readyz")[1], "readiness names both"
    )
    assert ask(port, "/readyz")[0] == 503
    assert ask(port, "/livez")[0] == 200
    assert process.poll() is None


@pytest.fixture
def beside(store_server: embedded.Server, cluster: str) -> Iterator[stores.Store]:
    """The store of another cluster name on the same server."""
    name = f"{cluster}-beside"
    with connections.connect(store_server.url) as client:
        schemas.migrate(client, declared.names(name), declared.SCHEMA)
    chosen = settings.Store(url=store_server.url)
    opened = stores.open_store(chosen, schema=declared.SCHEMA, cluster=name)
    yield opened
    opened.close()


def with_work(store: stores.Store, uid: str) -> int:
    """The log of the Kubernetes cluster with this UID gets work for a controller and an auditor; its head.

    A placement whose pod the API server does not have, and a count that differs from the log.
    """
    seen = (api_worlds.node("n"), writers.seen("u"))
    store.log.append(batches.Batch(events=seen, kubernetes=uid))
    writers.placement(store.log, store.follower.catch_up(), writers.pod("u"), "n")
    store.client.hset(store.keys.counts, "none", 1)
    store.client.delete(store.keys.readers)  # Nothing is kept for this reader.
    return store.log.head().offset


@pytest.mark.parametrize(
    ("command", "appended"), [("control", events.PlacementReleased), ("audit", events.ViewsRepaired)]
)
def test_a_worker_leaves_the_log_of_another_cluster_as_it_is(
    start: Start,
    store: stores.Store,
    beside: stores.Store,
    cluster_side: clusters.Cluster,
    command: str,
    appended: type[events.AnyEvent],
) -> None:
    """Another worker, which started later, does the same work in the log of its own cluster."""
    cluster_side.server.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": "second"}})
    foreign, own = with_work(store, "first"), with_work(beside, "second")
    port, other = child_processes.free_port(), child_processes.free_port()
    start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(
        lambda: "UID first, here it has second" in ask(port, "/readyz")[1],
        "it is refused",
    )
    start(
        command,
        TOPOLOG_SERVER_HEALTH_PORT=str(other),
        TOPOLOG_CLUSTER=beside.keys.cluster,
        TOPOLOG_ELECTION_NAMESPACE="beside",
    )
    recordings.eventually(
        lambda: any(isinstance(one.event, appended) for one in beside.log.read(own)), "the work is done"
    )
    assert store.log.read(foreign) == []
    assert store.log.counts() == {"none": 1}
    assert audit_reports.Reports(store.client, store.keys).latest() is None
    assert ask(port, "/readyz")[0] == 503
    assert ask(port, "/livez")[0] == 200


def test_a_compactor_leaves_the_log_of_another_cluster_as_it_is(
    start: Start, store: stores.Store, beside: stores.Store, cluster_side: clusters.Cluster
) -> None:
    """Another one, which started later, takes a checkpoint and trims the log of its own cluster."""
    cluster_side.server.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": "second"}})
    with_work(store, "first"), with_work(beside, "second")
    soon = {"TOPOLOG_COMPACTION_SECONDS": "1", "TOPOLOG_COMPACTION_KEEP": "0"}
    port, other = child_processes.free_port(), child_processes.free_port()
    start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port), **soon)
    recordings.eventually(
        lambda: "UID first, here it has second" in ask(port, "/readyz")[1], "readiness names both"
    )
    start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(other), TOPOLOG_CLUSTER=beside.keys.cluster, **soon)
    recordings.eventually(lambda: beside.log.oldest() > 1, "its own log is trimmed")
    assert beside.checkpoints.headers() != []
    assert store.log.oldest() == 1
    assert store.checkpoints.headers() == []
    assert ask(port, "/readyz")[0] == 503
    assert ask(port, "/livez")[0] == 200


def test_a_compactor_without_credentials_compacts_and_reports_it(start: Start, store: stores.Store) -> None:
    with_work(store, "first")
    port = child_processes.free_port()
    process = start(
        "compact",
        TOPOLOG_SERVER_HEALTH_PORT=str(port),
        TOPOLOG_KUBE_KUBECONFIG="/nowhere/config",
        TOPOLOG_COMPACTION_SECONDS="1",
        TOPOLOG_COMPACTION_KEEP="0",
    )
    recordings.eventually(lambda: store.log.oldest() > 1, "the log is trimmed")
    assert ask(port, "/readyz")[0] == 200
    process.send_signal(signal.SIGTERM)
    code, stderr = ended(process)
    assert code == 0
    assert "cannot compare the cluster with that of the log" in stderr


def test_a_store_of_another_schema_ends_a_worker(start: Start, store: stores.Store) -> None:
    store.client.hset(store.keys.meta, "schema", 1)
    code, stderr = ended(start("control", TOPOLOG_SERVER_HEALTH_PORT=str(child_processes.free_port())))
    assert code == 4
    assert "run `topolog migrate up`" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("command", ["record", "control", "compact", "audit"])
def test_a_worker_waits_for_a_store_that_is_away(
    start: Start, away: embedded.Server, cluster: str, command: str
) -> None:
    port = child_processes.free_port()
    process = start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port), TOPOLOG_STORE_URL=away.url)
    recordings.eventually(lambda: "the store is away" in ask(port, "/readyz")[1], "readiness names the store")
    assert (ask(port, "/readyz")[0], ask(port, "/livez")[0]) == (503, 200)
    away.start()
    recordings.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    process.send_signal(signal.SIGTERM)
    code, stderr = ended(process)
    reported = [
        line["error"]
        for line in map(json.loads, stderr.splitlines())
        if line["event"] == "waiting for the store"
    ]
    assert (code, len(reported)) == (0, len(set(reported))), stderr


def test_a_worker_that_waits_ends_by_a_signal(start: Start, away: embedded.Server) -> None:
    port = child_processes.free_port()
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port), TOPOLOG_STORE_URL=away.url)
    recordings.eventually(lambda: ask(port, "/livez")[0] == 200, "it waits")
    process.send_signal(signal.SIGTERM)
    code, stderr = ended(process)
    assert (code, "Traceback" in stderr) == (0, False), stderr


def test_a_port_that_stays_taken_has_a_message_and_an_exit_code(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, stderr = ended(start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port)))
    assert code == 6
    assert f"cannot listen on server.health_port 127.0.0.1:{port}: Address already in use" in stderr
    assert "Traceback" not in stderr


def test_a_port_that_is_free_soon_is_waited_for(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port))
        # It has begun to connect here when it looks for the port, or not even that.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
    recordings.eventually(lambda: ask(port, "/livez")[0] == 200, "it has the port")


def test_a_port_of_an_address_that_is_not_here_is_a_wrong_setting(start: Start) -> None:
    changes = {
        "TOPOLOG_SERVER_BIND": "192.0.2.1",
        "TOPOLOG_SERVER_HEALTH_PORT": str(child_processes.free_port()),
    }
    code, stderr = ended(start("record", **changes))
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
def test_signals_that_arrive_in_a_crowd_end_a_worker_once(start: Start, number: signal.Signals) -> None:
    port = child_processes.free_port()
    process = start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    for _ in range(5):
        process.send_signal(number)
    code, stderr = ended(process)
    assert (code, "Traceback" in stderr) == (0, False), stderr
