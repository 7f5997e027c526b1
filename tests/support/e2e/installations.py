"""Runs Topolog on a cluster with the manifests of deploy/; each process has its own service account.

    with installations.Installation(cluster, replicas=2) as topolog:
        topolog.start_scheduler("one", extender=0)
        topolog.ask("/apis/v1/pending")
        topolog.recorder.process.kill()

The store is a Redis or Valkey server that writes its append-only file, the certificates are those of
`topolog certs`, and the processes are the commands that the containers of deploy/base run.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import types
from collections.abc import Iterable, Mapping

import urllib3

from app.store.server import connections, embedded
from tests.support import child_processes, declared, manifests, polling
from tests.support.e2e import api_client, clusters, kube_schedulers, viewers

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
HOME = "topolog-system"
SERVICE = "topolog-extender.topolog-system.svc"
VIEW = "topolog-view.topolog-system.svc"
TOPOLOG = pathlib.Path(sys.executable).with_name("topolog")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One process of Topolog."""

    process: child_processes.Process
    health: int
    port: int

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        self.process.start()
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until the process is ready."""
        polling.ready(self.process, self.ready)

    def ready(self) -> bool:
        """Whether the process reports ready."""
        found = urllib3.request("GET", f"http://127.0.0.1:{self.health}/readyz", timeout=2.0, retries=False)
        return found.status == 200

    def calls(self) -> list[api_client.Object]:
        """The log lines of the calls that it has answered.

        A line is written a moment after its call (app.telemetry.log_lines); kube-scheduler may have acted on
        the answer by then: it is waited for as many lines as there were calls.
        """
        with contextlib.suppress(urllib3.exceptions.HTTPError):  # It may have been killed.
            answered = self._answered()
            polling.eventually(lambda: len(self._written()) >= answered, "the lines of all calls")
        return self._written()

    def _answered(self) -> int:
        """The calls since it was started."""
        found = urllib3.request("GET", f"http://127.0.0.1:{self.health}/metrics", timeout=5.0, retries=False)
        counts = re.findall(
            r"^topolog_verb_duration_seconds_count\{.*\} (.+)$", found.data.decode(), re.MULTILINE
        )
        return sum(int(float(one)) for one in counts)

    def _written(self) -> list[api_client.Object]:
        whole, _, _ = self.process.log.read_text(errors="replace").rpartition("\n")
        found = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in found if line.get("event") == "call"]


class Installation:
    """Store, recorder, controller and extenders for one cluster; ``whole``: auditor and compactor, too."""

    def __init__(
        self, cluster: clusters.Cluster, *, replicas: int = 1, whole: bool = False, **settings: str
    ) -> None:
        """``settings``: further ones, as ``PLUGINS_ENABLED="*,ElasticQuota"``."""
        self._settings = {f"TOPOLOG_{name}": value for name, value in settings.items()}
        self._cluster = cluster
        self._replicas = replicas
        self._whole = whole
        self._ending = contextlib.ExitStack()
        self._folder = cluster.folder / "topolog"
        self.tls = self._folder / "tls"

    def __enter__(self) -> "Installation":
        with self._ending:
            self._folder.mkdir()
            self._install()
            self._ending = self._ending.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._ending.close()
        if error is None:
            self._check_logs()

    def _check_logs(self) -> None:
        """Check that deploy/rbac granted enough rights, and that no process logged a traceback."""
        for log in self._folder.glob("*.log"):
            lines = log.read_text(errors="replace").lower().splitlines()
            # What a policy of the cluster denies is not a right that is missing.
            text = "\n".join(line for line in lines if "validatingadmissionpolicy" not in line)
            for word in ("forbidden", "traceback"):
                assert word not in text, f"{log.name} contains {word}"

    def _install(self) -> None:
        for what in ("crds", "rbac"):
            self._cluster.kubectl("apply", "-k", DEPLOY / what)
        self._cluster.await_done("wait", "--for=condition=established", "crd/workloadpolicies.kosmos.io")
        _run("certs", str(self.tls), "--host", SERVICE, "--host", VIEW, "--host", "127.0.0.1")
        self.store = embedded.Server(self._folder / "store", append_only=True)
        self._ending.callback(self.store.stop)
        _run("migrate", "up", env=self._environment({}))
        self.recorder = self._part("recorder", "record")
        self.controller = self._part("controller", "control")
        self.extenders = [
            self._part("extender", "extender", name=f"extender-{number}") for number in range(self._replicas)
        ]
        others = {"auditor": "audit", "compactor": "compact"} if self._whole else {}
        self.others = [self._part(account, command) for account, command in others.items()]
        for part in self.parts:
            part.await_ready()
        self._pool = urllib3.PoolManager(
            ca_certs=str(self.tls / "ca.crt"),
            cert_file=str(self.tls / "viewer.crt"),
            key_file=str(self.tls / "viewer.key"),
            retries=False,
            timeout=10.0 * polling.PATIENCE,
        )

    def start_view(self) -> Part:
        """Start the process of the dashboard; it asks the API server nothing."""
        view = self._part("extender", "view")
        view.await_ready()
        return view

    @property
    def parts(self) -> list[Part]:
        """All processes."""
        return [self.recorder, self.controller, *self.extenders, *self.others]

    def _part(self, account: str, command: str, *, name: str = "") -> Part:
        identity = self._cluster.service_account(HOME, f"topolog-{account}")
        port, health = child_processes.free_port(), child_processes.free_port()
        environment = {
            "TOPOLOG_KUBE_KUBECONFIG": str(self._cluster.kubeconfig(identity)),
            # In a pod this is the namespace of the service account.
            "TOPOLOG_ELECTION_NAMESPACE": HOME,
            "TOPOLOG_SERVER_BIND": "127.0.0.1",
            "TOPOLOG_SERVER_HEALTH_PORT": str(health),
        }
        if command in ("extender", "view"):
            of_port = "TOPOLOG_VIEW_PORT" if command == "view" else "TOPOLOG_SERVER_PORT"
            environment |= {of_port: str(port)} | {
                f"TOPOLOG_TLS_{what}": str(self.tls / file)
                for what, file in (("CERT", "server.crt"), ("KEY", "server.key"), ("CA", "ca.crt"))
            }
        called = name or command
        log = self._folder / f"{called}.log"
        process = child_processes.Process(
            called, [TOPOLOG, command], log=log, env=self._environment(environment)
        )
        process.start()
        self._ending.callback(process.stop, grace=5.0)
        return Part(process, health, port)

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        common = {"TOPOLOG_STORE_URL": self.store.url, **self._settings}
        return _bare() | manifests.settings() | common | dict(more)

    # Clients

    def start_scheduler(
        self,
        name: str = "topolog-scheduler",
        *,
        extender: int = 0,
        filter_verb: str = "",
        feature_gates: Mapping[str, bool] | None = None,  # instead of those of the cluster
        ready: bool = True,  # wait until it schedules pods
    ) -> kube_schedulers.Scheduler:
        """Start a kube-scheduler, with a configuration from deploy/, that calls one of the extenders."""
        config = kube_schedulers.configuration(
            DEPLOY / "scheduler" / "kube-scheduler-service.yaml",
            extender=f"https://127.0.0.1:{self.extenders[extender].port}",
            ca=self.tls / "ca.crt",
            certificate=self.tls / "scheduler.crt",
            key=self.tls / "scheduler.key",
            scheduler_name=name,
        )
        if filter_verb:
            config["extenders"][0]["filterVerb"] = filter_verb
        return self._cluster.start_scheduler(
            f"{name}-{filter_verb or 'filter'}", config, feature_gates=feature_gates, ready=ready
        )

    def ask(self, path: str, *, extender: int = 0) -> api_client.Object:
        """GET a path of the introspection API as a viewer; a busy extender is asked again."""
        return self._viewer(extender).ask(path)

    def measure_calls(self, pods: str, seconds: float) -> tuple[int, float]:
        """Calls about pods whose ``namespace/name`` begins so, and the time in which they were answered.

        The time is at least so many seconds, and at least one call is among them. A busy machine makes it
        longer; then there are fewer calls a second, and never more.
        """

        def answered() -> int:
            calls = (call for part in self.extenders for call in part.calls())
            return sum(str(call.get("pod", "")).startswith(pods) for call in calls)

        began = time.monotonic()
        before = answered()
        polling.eventually(
            lambda: time.monotonic() - began >= seconds and answered() > before,
            f"kube-scheduler tries {pods}",
            within=seconds + 120,
            every=1.0,
        )
        count = answered() - before
        return count, time.monotonic() - began

    def question(self, name: str, asked: api_client.Object, *, extender: int = 0) -> api_client.Object:
        """The answer to a hypothetical question, asked in the same way."""
        return self._viewer(extender).question(name, asked)

    def find(self, path: str, *, extender: int = 0) -> api_client.Object | None:
        """As ``ask``; None if it does not exist."""
        return self._viewer(extender).find(path)

    def _viewer(self, extender: int) -> viewers.Viewer:
        return viewers.Viewer(self._pool, f"https://127.0.0.1:{self.extenders[extender].port}")

    # Counts

    def quotas(self, namespace: str, policy: str, *, extender: int = 0) -> dict[str, int]:
        """Domain -> pods counted there, including those in flight, from the introspection API.

        Empty if the extender does not have the policy yet.
        """
        path = f"/apis/v1/plugins/WorkloadPolicy/policies/{namespace}/{policy}/quotas"
        found = self.find(path, extender=extender)
        items = [] if found is None else found["items"]
        return {each["domain"]: each["placed"] + each["inFlight"] for each in items}

    def counts(self, namespace: str, policy: str, domains: Iterable[str]) -> dict[str, int]:
        """Domain -> pods counted there, from the store."""
        client, key = connections.connect(self.store.url), declared.names("default").counts
        try:
            found = {connections.text(name): int(count) for name, count in client.hgetall(key).items()}
        finally:
            client.close()
        mine = f"{namespace}/{policy}|"
        of_policy = {name.rpartition("=")[2]: count for name, count in found.items() if name.startswith(mine)}
        return {each: of_policy.get(each, 0) for each in domains}


def _run(*arguments: str, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        [TOPOLOG, *arguments],
        env=env or _bare(),
        capture_output=True,
        text=True,
        timeout=60 * polling.PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"topolog {' '.join(arguments)}: {done.returncode}\n{done.stderr}"


def _bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("TOPOLOG_", "TLS_"))}
