"""Topolog as it runs in a cluster, small: two extender processes, a recorder, a store, an API server.

Everything is a process of its own or real HTTP; callers come with the certificates of their roles.
"""

import contextlib
import dataclasses
import functools
import http.client
import json
import os
import pathlib
import re
import ssl
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from app import plugins, settings
from app.domain import model, schema, snapshots
from app.framework import registry
from app.kube.objects import decoding
from app.plugins.workload_policy import decoding as policy_decoding
from app.plugins.workload_policy import samples
from app.serving.tls import certificate_issuer
from app.simulation import populations
from app.simulation.apiserver import apiservers
from app.store import keys, schemas, stores
from app.store.server import connections, embedded
from tests.support import child_processes, declared, extender_processes, polling
from tests.support.store import crash_safe_server

Json = dict[str, Any]
CLUSTER = "stage"
POLICY_LABEL = "workload-policy/kosmos.io"
PATIENCE = 5.0
"""kube-scheduler's httpTimeout: a later answer is lost."""
VERBS = ("filter", "filter_onlyone", "prioritize", "priority", "bind", "preempt")


@dataclasses.dataclass(frozen=True)
class Answer:
    """Status, headers and body of a reply."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Json:
        """The JSON value of the body, usually an object."""
        found: Json = json.loads(self.raw)
        return found

    @property
    def items(self) -> list[Json]:
        """The value of a reply that is a list."""
        found: list[Json] = json.loads(self.raw)
        return found


class Caller:
    """One client with one kept connection, opened again after it was closed."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._make = functools.partial(
            http.client.HTTPSConnection, "127.0.0.1", port, timeout=PATIENCE, context=context
        )
        self._connection = self._make()

    def close(self) -> None:
        self._connection.close()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One call; a connection that was closed while idle is replaced, as Go does it."""
        given = {"Content-Type": "application/json"} if body is not None else {}
        for attempt in (1, 2):
            try:
                self._connection.request(method, path, body, {**given, **(headers or {})})
                reply = self._connection.getresponse()
                return Answer(reply.status, dict(reply.headers), reply.read())
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                self._connection.close()
                self._connection = self._make()
                if attempt == 2:
                    raise
        raise AssertionError

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        """POST of a value as JSON, or of bytes as they are."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, raw, headers)


class Extender:
    """One extender process, or a worker by another ``command``."""

    def __init__(
        self,
        name: str,
        environ: Mapping[str, str],
        folder: pathlib.Path,
        *,
        command: str = "extender",
        program: Sequence[str | pathlib.Path] = (extender_processes.TOPOLOG,),
    ) -> None:
        self.port = int(environ["TOPOLOG_SERVER_PORT"])
        self.health = int(environ["TOPOLOG_SERVER_HEALTH_PORT"])
        self.process = child_processes.Process(
            name, [*program, command], log=folder / f"{name}.log", env=os.environ | environ
        )

    def readiness(self) -> tuple[int, str]:
        """Status and text of /readyz."""
        return fetched(f"http://127.0.0.1:{self.health}/readyz")

    def metrics(self) -> str:
        return fetched(f"http://127.0.0.1:{self.health}/metrics")[1]

    def ready(self) -> None:
        """Wait until it is ready."""
        polling.ready(self.process, lambda: self.readiness()[0] == 200)

    def lines(self, **fields: object) -> list[Json]:
        """The log lines with these fields."""
        found = []
        for text in self.process.log.read_text(errors="replace").splitlines():
            if text.startswith("{"):
                line = json.loads(text)
                if all(line.get(key) == value for key, value in fields.items()):
                    found.append(line)
        return found

    def line(self, **fields: object) -> Json:
        """Wait for a log line with these fields; the first."""
        return polling.eventually(lambda: self.lines(**fields), f"a log line with {fields}", within=60)[0]


class Stage:
    """The parts of a stage."""

    def __init__(
        self,
        folder: pathlib.Path,
        api: apiservers.ApiServer,
        server: embedded.Server,
        schema: schema.Schema = declared.SCHEMA,
    ) -> None:
        self.folder = folder
        self.api = api
        self.server = server
        self.unready: tuple[int, str] = (0, "")
        """The readiness of the first extender before anything was recorded."""
        self._stack = contextlib.ExitStack()
        certificate_issuer.issue(folder / "tls", ["127.0.0.1", "localhost"])
        client = connections.connect(server.url)
        schemas.migrate(client, keys.Keys(CLUSTER, schema.forms), schema)
        client.close()
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url)
        self.replicas: list[Extender] = []
        self._workers: list[Extender] = []
        indexed = registry.Registry([plugin() for plugin in plugins.USUAL]).indexed()
        self.store = stores.open_store(
            settings.Store(url=server.url),
            schema=schema,
            cluster=CLUSTER,
            indexed=indexed,
        )
        """A connection of the tests to the store."""
        self._stack.callback(self.store.close)

    def close(self) -> None:
        self._stack.close()  # a kept connection would be waited for
        for one in [*self.replicas, *self._workers]:
            one.process.stop()

    # -- processes -------------------------------------------------------------------------

    def environment(self, **more: str) -> dict[str, str]:
        port, health = child_processes.free_port(), child_processes.free_port()
        made = extender_processes.settings(
            self.server.url,
            CLUSTER,
            self.folder / "tls",
            self.folder,
            port=port,
            health=health,
            kubeconfig=self.kubeconfig,
        )
        return {**made, **more}

    def extend(
        self, name: str, *, program: Sequence[str | pathlib.Path] = (extender_processes.TOPOLOG,), **more: str
    ) -> Extender:
        """Start another extender. ``program``: run instead of ``topolog``, with the same arguments."""
        one = Extender(name, self.environment(**more), self.folder, program=program)
        one.process.start()
        self.replicas.append(one)
        return one

    def worker(self, command: str, **more: str) -> Extender:
        """Start another process: ``record``, ``control``, ``audit``, ``compact`` or ``view``."""
        one = Extender(command, self.environment(**more), self.folder, command=command)
        one.process.start()
        self._workers.append(one)
        return one

    # -- callers ---------------------------------------------------------------------------

    def caller(self, role: str = "scheduler", replica: int = 0, *, server: Extender | None = None) -> Caller:
        """A client with the certificate of a role, of a replica of the extender or of another ``server``."""
        tls = self.folder / "tls"
        context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
        context.load_cert_chain(tls / f"{role}.crt", tls / f"{role}.key")
        made = Caller((server or self.replicas[replica]).port, context)
        self._stack.callback(made.close)
        return made

    # -- the cluster -----------------------------------------------------------------------

    def node(self, name: str, **labels: str) -> Json:
        """Create a node; label names with - for _."""
        made = populations.node(name, {key.replace("_", "-"): value for key, value in labels.items()})
        created: Json = json.loads(self.api.objects.create("nodes", made))
        return created

    def relabel(self, name: str, key: str, value: str) -> None:
        def edit(found: Json) -> Json:
            found["metadata"]["labels"][key] = value
            return found

        self.api.objects.change("nodes", ("", name), edit)

    def pod(self, namespace: str, name: str, labels: Mapping[str, str] | None = None, **spec: object) -> Json:
        """Create a pod, as kube-scheduler sends it."""
        node = spec.pop("nodeName", "")
        made = populations.pod(namespace, name, dict(labels or {}), node=str(node))
        made["spec"] |= spec
        created: Json = json.loads(self.api.objects.create("pods", made))
        return created

    def policy(self, namespace: str, name: str, spec: Json | None) -> None:
        self.api.objects.create("workloadpolicies", samples.policy(namespace, name, spec))

    def configured(self) -> bool:
        """Whether the log holds a configuration of the extenders."""
        return bool(self.store.follower.catch_up().configurations)

    def bound(self, pod: Json) -> str:
        meta = pod["metadata"]
        found = self.api.objects.get("pods", (meta["namespace"], meta["name"]))
        return str(found["spec"].get("nodeName", ""))

    def seen(self) -> snapshots.Snapshot:
        """Wait until the log holds what the API server has: longer after a restart of the store."""
        snapshot = polling.eventually(self._level, "the log holds what the API server has", within=40.0)
        assert snapshot is not None
        return snapshot

    def _level(self) -> snapshots.Snapshot | None:
        snapshot = self.store.follower.catch_up()
        if snapshot.unlisted or self.store.log.state().restarted:
            return None
        pods = {pod.uid: pod for pod in self._read("pods", decoding.pod)}
        nodes = {node.name: node for node in self._read("nodes", decoding.node)}
        policies = {one.key: one for one in self._read("workloadpolicies", policy_decoding.policy)}
        same = (dict(snapshot.pods), dict(snapshot.nodes), dict(snapshot.all(declared.POLICIES)))
        return snapshot if same == (pods, nodes, policies) else None

    def _read(self, name: str, decode: Callable[[bytes], model.Frozen]) -> list[Any]:
        return [decode(msgspec.json.encode(one)) for one in self.api.objects.all(name)]


def request(pod: Json, *names: str) -> Json:
    """A filter or prioritize call as kube-scheduler sends it with nodeCacheCapable."""
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}


def bind(pod: Json, node: str) -> Json:
    """A bind call."""
    meta = pod["metadata"]
    return {
        "PodName": meta["name"],
        "PodNamespace": meta["namespace"],
        "PodUID": meta["uid"],
        "Node": node,
    }


def fetched(url: str) -> tuple[int, str]:
    """Status and text at a plain URL."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, problem.read().decode()


def write_kubeconfig(path: pathlib.Path, server: str) -> pathlib.Path:
    """Write a kubeconfig for an API server without authentication; return its path."""
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(written))
    return path


@contextlib.contextmanager
def raised(folder: pathlib.Path) -> Iterator[Stage]:
    """Two extenders that are ready, and all that they need."""
    (folder / "store").mkdir()
    server = crash_safe_server.CrashSafeServer(folder / "store", append_only=True)
    try:
        with apiservers.ApiServer(declared.SCHEMA) as api:
            stage = Stage(folder, api, server)
            try:
                first = stage.extend("extender-1")
                polling.ready(first.process, lambda: first.readiness()[0] in (200, 503))
                stage.unready = first.readiness()
                stage.worker("record")
                stage.extend("extender-2")
                for one in stage.replicas:
                    one.ready()
                # Its event would come between two heads that a test compares.
                polling.eventually(stage.configured, "the log holds the extenders' configuration")
                yield stage
            finally:
                stage.close()
    finally:
        server.stop()


def spec(**quotas: int) -> Json:
    """The spec of a Required policy over the node label ``role``: replicas by domain."""
    return {
        "topologyKey": "role",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "allocationPolicy": [{"name": name, "replicas": most} for name, most in quotas.items()],
        "allocationType": "Required",
    }


def counted_faults(stage: Stage) -> float:
    """Internal errors of the first extender during all its calls."""
    found = re.findall(r"^topolog_faults_total\{.*\} (\S+)$", stage.replicas[0].metrics(), re.MULTILINE)
    assert found
    return sum(map(float, found))


def paths(prefix: str = "") -> list[str]:
    """The path of each verb."""
    return [f"{prefix}/{verb}" for verb in VERBS]
