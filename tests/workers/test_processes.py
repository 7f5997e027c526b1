"""``python -m workers``: real processes, their health ports, their exit codes."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from app.simulation import faults
from app.store import connecting, embedded, keys, logs, opening
from tests.kube import oddities
from tests.workers import conftest

Start = Callable[..., subprocess.Popen[str]]
SHORT = {"TOPOLOG_ELECTION_LEASE": "3", "TOPOLOG_ELECTION_RENEW": "2", "TOPOLOG_ELECTION_RETRY": "0.1"}
ROOT = pathlib.Path(__file__).parent.parent.parent


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


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
def kubeconfig(cluster_side: conftest.Cluster, tmp_path: pathlib.Path) -> pathlib.Path:
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
    store: opening.Store, store_server: embedded.Server, cluster: str, kubeconfig: pathlib.Path
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
    """A server that keeps a store of this schema, and is not there."""
    server = embedded.Server(tmp_path / "server", append_only=True)
    with connecting.connect(server.url) as client:
        opening.migrate(client, keys.Keys(cluster))
    server.kill()
    yield server
    server.stop()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what it said."""
    _, said = process.communicate(timeout=conftest.LIMIT)
    return process.returncode, said


@pytest.mark.parametrize("command", ["record", "control", "audit"])
def test_a_worker_gets_ready_and_ends_by_a_signal(
    start: Start, store: opening.Store, cluster_side: conftest.Cluster, command: str
) -> None:
    cluster_side.node("n")
    port = free_port()
    process = start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port))
    conftest.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    assert ask(port, "/livez") == (200, "ok\n")
    assert "topolog_events_total" in ask(port, "/metrics")[1]
    assert ask(port, "/else")[0] == 404
    assert ("n" in store.follower.catch_up().nodes) is (command == "record")
    process.send_signal(signal.SIGTERM)
    code, said = ended(process)
    assert (code, "Traceback" in said) == (0, False), said


def test_odd_answers_of_the_api_server_end_no_thread(
    start: Start, store: opening.Store, cluster_side: conftest.Cluster
) -> None:
    port, trouble = free_port(), cluster_side.server.faults
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port), **SHORT)
    conftest.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    html = oddities.answer(oddities.HTML)
    met = [
        trouble.add(faults.Kind.RAW, faults.calls("PUT", "leases/topolog-recorder"), raw=html, times=2),
        *(
            trouble.add(faults.Kind.RAW, faults.watches("nodes"), raw=oddities.watched(line))
            for line in (b'{"type":"ERROR","object":"gone"}', b'{"type":"ERROR","object":{"code":"x"}}')
        ),
    ]
    cluster_side.server.disconnect()
    conftest.eventually(lambda: all(fault.struck == fault.times for fault in met), "all of it was met")
    assert ask(port, "/livez") == (200, "ok\n")
    cluster_side.node("later")
    conftest.eventually(lambda: "later" in store.follower.catch_up().nodes, "it goes on")
    conftest.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready again")
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0


def test_readiness_says_what_is_missing(
    start: Start, store: opening.Store, cluster_side: conftest.Cluster
) -> None:
    port = free_port()
    cluster_side.server.stop()
    start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    conftest.eventually(
        lambda: "cannot connect" in ask(port, "/readyz")[1], "it says that the API server is away"
    )
    status, said = ask(port, "/readyz")
    assert status == 503
    assert "[-] leader: nobody leads" in said
    assert "[-] election: lease default/topolog-recorder" in said
    assert ask(port, "/livez")[0] == 200


def test_a_recorder_that_was_replaced_says_so(
    start: Start, store: opening.Store, cluster_side: conftest.Cluster
) -> None:
    port = free_port()
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    conftest.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    # An epoch that no Lease of this API server ever had: only an operator can know what is right.
    store.log.append(logs.Batch(events=()), logs.Guard(epoch=f"9{'0' * 20}", writer="somebody"))
    cluster_side.node("n")
    conftest.eventually(lambda: "topolog adopt" in ask(port, "/readyz")[1], "it says what may be the case")
    status, said = ask(port, "/readyz")
    assert status == 503
    assert "of somebody" in said
    assert "n" not in store.follower.catch_up().nodes
    assert process.poll() is None


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"TOPOLOG_STORE_URL": ""}, 3, "store.url is not set"),
        ({"TOPOLOG_SERVER_HEALTH_PORT": "none"}, 3, "health_port"),
        ({"TOPOLOG_KUBE_KUBECONFIG": "/nowhere/config"}, 5, "/nowhere/config"),
    ],
)
def test_what_cannot_work_ends_with_one_sentence(
    start: Start, changes: dict[str, str], code: int, words: str
) -> None:
    process = start("record", **({"TOPOLOG_SERVER_HEALTH_PORT": str(free_port())} | changes))
    found, said = ended(process)
    assert found == code
    assert words in said
    assert "Traceback" not in said


def test_a_store_of_another_schema_ends_a_worker(start: Start, store: opening.Store) -> None:
    store.client.hset(store.keys.meta, "schema", 1)
    code, said = ended(start("control", TOPOLOG_SERVER_HEALTH_PORT=str(free_port())))
    assert code == 4
    assert "run `topolog migrate up`" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["record", "control", "compact", "audit"])
def test_a_worker_waits_for_a_store_that_is_away(
    start: Start, away: embedded.Server, cluster: str, command: str
) -> None:
    port = free_port()
    process = start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port), TOPOLOG_STORE_URL=away.url)
    conftest.eventually(lambda: "the store is away" in ask(port, "/readyz")[1], "it says what it waits for")
    assert (ask(port, "/readyz")[0], ask(port, "/livez")[0]) == (503, 200)
    away.start()
    conftest.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    process.send_signal(signal.SIGTERM)
    code, said = ended(process)
    told = [line["error"] for line in map(json.loads, said.splitlines()) if "waits" in line["event"]]
    assert (code, len(told)) == (0, len(set(told))), said


def test_a_worker_that_waits_ends_by_a_signal(start: Start, away: embedded.Server) -> None:
    port = free_port()
    process = start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port), TOPOLOG_STORE_URL=away.url)
    conftest.eventually(lambda: ask(port, "/livez")[0] == 200, "it waits")
    process.send_signal(signal.SIGTERM)
    code, said = ended(process)
    assert (code, "Traceback" in said) == (0, False), said


def test_a_port_that_stays_taken_is_told_and_has_an_exit_code_of_its_own(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = ended(start("record", TOPOLOG_SERVER_HEALTH_PORT=str(port)))
    assert code == 6
    assert f"cannot listen on server.health_port 127.0.0.1:{port}: Address already in use" in said
    assert "Traceback" not in said


def test_a_port_that_is_free_soon_is_waited_for(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port))
        # It has begun to connect here when it looks for the port, or not even that.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
    conftest.eventually(lambda: ask(port, "/livez")[0] == 200, "it has the port")


def test_a_port_of_an_address_that_is_not_here_is_a_wrong_setting(start: Start) -> None:
    changes = {"TOPOLOG_SERVER_BIND": "192.0.2.1", "TOPOLOG_SERVER_HEALTH_PORT": str(free_port())}
    code, said = ended(start("record", **changes))
    assert (code, "Traceback" in said) == (3, False), said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_arrive_in_a_crowd_end_a_worker_once(start: Start, number: signal.Signals) -> None:
    port = free_port()
    process = start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port))
    conftest.eventually(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
    for _ in range(5):
        process.send_signal(number)
    code, said = ended(process)
    assert (code, "Traceback" in said) == (0, False), said
