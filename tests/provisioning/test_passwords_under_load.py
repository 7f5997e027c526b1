"""The store's passwords are replaced under extenders, a recorder and a controller that run and place pods.

All are processes of their own, each with the URL of its role in the Secret, on a real server with the access
list that is made of the hashes. Only the API server is a simulated one; it holds the Secrets, too.
"""

import contextlib
import http.client
import json
import pathlib
import ssl
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
import redis
from click import testing

from app import cli
from app.store import keys
from tests.support import polling
from tests.support.extender import stages
from tests.support.provisioning import namespaces, secrets_of
from tests.support.store import servers

TESTS = "user tests on >tests ~* &* +@all\n"
"""A user of the tests beside those of the installation."""
PLACES = 12
WORKERS = {"record": "recorder", "control": "controller"}
"""Command -> role of its user."""
HASTE = {"TOPOLOG_BUDGETS_BIND": "1.5"}
"""After a restart of the store, pods under a policy wait for this and 8.5 s."""


class Store:
    """The bundled store; a restart takes the access list of the present hashes."""

    def __init__(self, namespace: namespaces.Namespace, folder: pathlib.Path) -> None:
        self._namespace = namespace
        self._folder = folder
        namespace.provision(cluster=stages.CLUSTER)
        self._mount()
        lines = [f"aclfile {folder / 'users.acl'}", "appendonly yes", "maxmemory 100mb"]
        # A kill must not lose what was acknowledged: with everysec, a slow disk delays writes.
        lines.append("appendfsync always")
        self.server = servers.Server(folder / "server", lines)
        self.url = f"redis://tests:tests@{self.server.address}"
        namespace.provision(cluster=stages.CLUSTER, store=f"redis://{self.server.address}")

    def _mount(self) -> None:
        hashes, users = self._folder / "hashes", self._folder / "users.acl"
        hashes.mkdir(exist_ok=True)
        for role, text in secrets_of.data(self._namespace.secrets()["topolog-valkey-acl"]).items():
            (hashes / role).write_bytes(text)
        command = ["doctor", "users", "--hashes", str(hashes), "--to", str(users)]
        done = testing.CliRunner().invoke(cli.topolog, command, env={"TOPOLOG_CLUSTER": stages.CLUSTER})
        assert done.exit_code == 0, done.output
        users.write_text(users.read_text() + TESTS)

    def restart(self) -> None:
        self.server.kill()
        self._mount()
        self.server.start()

    def of(self, role: str) -> dict[str, str]:
        """The environment of a process that starts now."""
        data = secrets_of.data(self._namespace.secrets()["topolog-store"])
        return {"TOPOLOG_STORE_URL": data[f"{role}-url"].decode()}

    def refuses(self, url: str) -> bool:
        """Whether the server does not let a user in."""
        with redis.Redis.from_url(url, protocol=2) as client:
            try:
                return not client.ping()
            except redis.AuthenticationError:
                return True

    def events(self) -> list[str]:
        """The types of all events of the log."""
        with redis.Redis.from_url(self.url, protocol=2) as client:
            entries: Any = client.xrange(keys.Keys(stages.CLUSTER).log)
            return [json.loads(fields[b"e"])["type"] for _, fields in entries]


@pytest.fixture
def store(namespace: namespaces.Namespace, tmp_path: pathlib.Path) -> Iterator[Store]:
    made = Store(namespace, tmp_path)
    yield made
    made.server.kill()


class Scheduler:
    """Asks any extender about every pod that is not bound, again and again, as kube-scheduler does."""

    def __init__(self, stage: stages.Stage) -> None:
        self._stage = stage
        self._pods: list[stages.Json] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[str] = []
        """The names of the pods whose bind was answered with success."""
        self.refused: list[str] = []
        """Those that the policy allowed nowhere."""

    def __enter__(self) -> "Scheduler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def add(self, count: int) -> None:
        """Create pods under the policy."""
        for _ in range(count):
            name = f"web-{len(self._pods)}"
            labels = {"app": "web", stages.POLICY_LABEL: "spread"}
            self._pods.append(self._stage.pod("shop", name, labels))

    def bound(self) -> list[str]:
        """The names of the pods that have a node."""
        return [str(pod["metadata"]["name"]) for pod in self._pods if self._stage.bound(pod)]

    def await_bound(self, count: int) -> None:
        """Wait until so many pods have a node."""
        polling.eventually(lambda: len(self.bound()) == count, f"{count} pods are bound", within=90)

    def _run(self) -> None:
        turn = 0
        while not self._ended.wait(0.1):
            for pod in list(self._pods):
                if not self._stage.bound(pod):
                    turn += 1
                    self._try(pod, turn % len(self._stage.replicas))

    def _try(self, pod: stages.Json, replica: int) -> None:
        caller = self._stage.caller(replica=replica)
        with (
            contextlib.closing(caller),
            contextlib.suppress(OSError, http.client.HTTPException, ssl.SSLError),
        ):
            reply = caller.post("/filter", stages.request(pod, "n1", "n2"))
            if reply.status != 200 or reply.json["Error"]:
                return
            kept = reply.json["NodeNames"] or []
            if not kept:
                self.refused.append(str(pod["metadata"]["name"]))
            else:
                done = caller.post("/bind", stages.bind(pod, kept[0]))
                if done.status == 200 and not done.json["Error"]:
                    self.acknowledged.append(str(pod["metadata"]["name"]))


class Installation:
    """The processes, which are started again one after the other."""

    def __init__(self, stage: stages.Stage, store: Store) -> None:
        self._stage = stage
        self._store = store
        self._started = 0
        self._workers: dict[str, stages.Extender] = {}
        for command in WORKERS:
            self._work(command)
        for _ in range(2):
            self._extend()
        for one in stage.replicas:
            one.ready()

    def restart(self) -> None:
        """Start each process again, the extenders one by one."""
        for command in WORKERS:
            self._workers[command].process.stop()
            self._work(command)
        for former in list(self._stage.replicas):
            former.process.stop()
            self._extend().ready()
            self._stage.replicas.remove(former)

    def ready(self) -> None:
        """Wait until every process is ready."""
        for one in (*self._stage.replicas, *self._workers.values()):
            one.ready()

    def _work(self, command: str) -> None:
        self._workers[command] = self._stage.worker(command, **self._store.of(WORKERS[command]))

    def _extend(self) -> stages.Extender:
        self._started += 1
        return self._stage.extend(f"extender-{self._started}", **self._store.of("extender"), **HASTE)


@pytest.mark.timeout(600)
def test_no_placement_is_lost_while_passwords_are_replaced(
    namespace: namespaces.Namespace, store: Store, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "stage"
    folder.mkdir()
    stage = stages.Stage(folder, namespace.server, cast(Any, store))
    with contextlib.closing(stage):
        for name, role in (("n1", "a"), ("n2", "b")):
            stage.node(name, role=role)
        stage.policy("shop", "spread", stages.spec(a=PLACES // 2, b=PLACES // 2))
        former = store.of("recorder")["TOPOLOG_STORE_URL"]
        installation = Installation(stage, store)
        restarts = {"announce": store.restart, "take-over": installation.restart, "drop": store.restart}
        with Scheduler(stage) as scheduler:
            for number, (step, restart) in enumerate(restarts.items(), 1):
                scheduler.add(PLACES // len(restarts))
                done = namespace.bootstrap("--passwords", step)
                assert done.returncode == 0, done.stderr
                restart()
                installation.ready()
                placed = number * PLACES // len(restarts)
                scheduler.await_bound(placed)
                assert store.refuses(former) == (step == "drop")
            scheduler.add(1)
            polling.eventually(lambda: scheduler.refused, "the quota is full", within=60)
        assert len(scheduler.bound()) == PLACES
        assert set(scheduler.acknowledged) <= set(scheduler.bound())
        polling.eventually(
            lambda: stage.seen() and not stage.seen().placements, "all are confirmed", within=60
        )
        counted = store.events()
        assert counted.count("PlacementsCommitted") == PLACES, counted
        logs = {path.name: path.read_text(errors="replace") for path in folder.glob("*.log")}
        assert len(logs) >= 6
        assert [name for name, text in logs.items() if "refuses the credentials" in text] == []
