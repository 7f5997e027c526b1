"""Runs Topolog beside a simulated cluster, as a user would.

The API server and the kubelets run in this process. Topolog is ``topolog up`` with certificates of
``topolog certs``: separate processes, real HTTP, real mTLS.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from app import parent_death, plugins, temporary_folders
from app.simulation import kubelets, schedulers
from app.simulation.apiserver import apiservers, objects

Json = dict[str, Any]

_START_SECONDS = 60.0
_RANGE = 6
"""Consecutive ports, one for each process of ``topolog up``."""
_LOG = "topolog.log"
ENVIRONMENT = "environment"
"""File of a stage's folder that a shell reads before commands that ask its processes."""
_CLUSTER = "demo"
_PODS, _NODES = "pods", "nodes"
_TOPOLOG = (sys.executable, "-m", "app.cli")


class StageFailed(RuntimeError):
    """Topolog did not start, or did not reach an expected state in time."""


class Stage:
    """A running Topolog and its simulated cluster, for scenes."""

    def __init__(
        self, folder: Path, server: apiservers.ApiServer, url: str, process: "subprocess.Popen[bytes]"
    ) -> None:
        self._process = process
        self.folder = folder
        self.server = server
        self.url = url
        """URL of the extender."""
        host, _, port = url.rpartition(":")
        self.view_url = f"{host}:{int(port) + 1}"
        """URL of ``topolog view``."""
        self._viewer = urllib3.PoolManager(
            ca_certs=str(folder / "ca.crt"),
            cert_file=str(folder / "viewer.crt"),
            key_file=str(folder / "viewer.key"),
            retries=False,
        )

    def scheduler(
        self, nodes: list[Json], *, seed: int = 0, filter_verb: str = "filter"
    ) -> schedulers.Scheduler:
        """A scheduler for the given nodes, with the client certificate ``scheduler``."""
        extender = schedulers.Extender(
            self.url,
            ca=str(self.folder / "ca.crt"),
            cert=str(self.folder / "scheduler.crt"),
            key=str(self.folder / "scheduler.key"),
        )
        return schedulers.Scheduler(extender, nodes, seed=seed, filter_verb=filter_verb)

    def exit_report(self) -> str:
        """Exit code of ``topolog up`` and the last lines of its log; empty while it runs."""
        code = self._process.poll()
        return "" if code is None else f"topolog up ended with exit code {code}; {_tail(self.folder / _LOG)}"

    # -- the cluster -----------------------------------------------------------------------

    def create(self, resource: str, made: Json) -> Json:
        """Create an object."""
        created: Json = json.loads(self.server.objects.create(resource, made))
        return created

    def pod(self, pod: Json) -> Json:
        """The pod as stored by the API server."""
        meta = pod["metadata"]
        return self.server.objects.get(_PODS, (meta["namespace"], meta["name"]))

    def wakeup(self, pod: Json) -> tuple[str, int]:
        """The message of the pod's latest wake-up, and the offset of its event; empty and 0 without one."""
        for one in self.pod(pod)["status"].get("conditions", []):
            if one["type"] == "topolog.io/CapacityAvailable":
                return one["message"], int(one["message"].rpartition(" ")[2].rstrip(")"))
        return "", 0

    def attempt(self, scheduler: schedulers.Scheduler, pod: Json) -> schedulers.Attempt:
        """Try once to schedule the pod; a refusal becomes its PodScheduled condition."""
        attempt = scheduler.attempt(pod)
        if attempt.node is None:
            meta = pod["metadata"]
            refused = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": attempt.message,
                "lastTransitionTime": objects.now(),
            }

            def edit(found: Json) -> Json:
                conditions = found["status"].get("conditions", [])
                others = [one for one in conditions if one.get("type") != refused["type"]]
                found["status"]["conditions"] = [*others, refused]
                return found

            self.change(_PODS, (meta["namespace"], meta["name"]), edit)
        return attempt

    def relabel(self, node: str, labels: Mapping[str, str | None]) -> Json:
        """Set or remove (None) labels of a node."""

        def edit(found: Json) -> Json:
            kept = {**found["metadata"]["labels"], **labels}
            found["metadata"]["labels"] = {key: value for key, value in kept.items() if value is not None}
            return found

        return self.change(_NODES, ("", node), edit)

    def change(self, resource: str, key: tuple[str, str], edit: Callable[[Json], Json]) -> Json:
        """Replace an object by ``edit`` of a copy."""
        changed: Json = json.loads(self.server.objects.change(resource, key, edit))
        return changed

    # -- the introspection API -------------------------------------------------------------

    def get(self, path: str, accept: str = "application/json") -> str:
        """GET a path of the introspection API with the role viewer; returns the body. Raises StageFailed."""
        reply = self._viewer.request("GET", f"{self.url}{path}", headers={"Accept": accept}, timeout=60)
        if reply.status != 200:
            raise StageFailed(f"GET {path}: {reply.status} {reply.data.decode()[:200]}")
        return reply.data.decode()

    def head(self) -> int:
        """The offset of the latest event that the introspection API shows."""
        position = json.loads(self.get("/apis/v1/nodes?limit=1"))["metadata"]["position"]
        return int(position.rpartition("/")[2])

    def wait(self, what: str, holds: Callable[[], bool], *, within: float = 20.0) -> None:
        """Wait until ``holds`` returns true. Raises StageFailed after ``within`` seconds."""
        deadline = time.monotonic() + within
        while not holds():
            if time.monotonic() > deadline:
                raise StageFailed(f"timed out after {within:.0f} s waiting for: {what}")
            time.sleep(0.02)

    def wait_for(self, path: str, holds: Callable[[Json], bool], what: str) -> Json:
        """Wait until the reply of a path of the introspection API satisfies ``holds``; returns the reply."""
        found: Json = {}

        def check() -> bool:
            nonlocal found
            try:
                found = json.loads(self.get(path))
            except StageFailed:
                return False
            return holds(found)

        self.wait(what, check)
        return found

    def wait_for_nodes(self, count: int) -> None:
        """Wait until the log has at least so many nodes."""
        self.wait_for(
            "/apis/v1/nodes?limit=1",
            lambda found: len(found["items"]) + found["metadata"]["remaining"] >= count,
            f"{count} nodes in the log",
        )


@contextmanager
def open_stage() -> Iterator[Stage]:
    """A running stage; all its processes and files are removed with the block."""
    with (
        temporary_folders.temporary_folder("topolog-demo-") as folder,
        apiservers.ApiServer(plugins.catalog().schema) as server,
    ):
        # By its UID a cluster is identified; every real one has it.
        server.objects.create("namespaces", {"metadata": {"name": "kube-system"}})
        running = kubelets.Kubelets(server.objects).start()
        try:
            with _topolog(folder, server.url) as (url, process):
                yield Stage(folder, server, url, process)
        finally:
            running.stop()


@contextmanager
def _topolog(folder: Path, api: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """``topolog certs``, then ``topolog up``; yields the extender's URL once it is ready, and the process."""
    subprocess.run(
        [*_TOPOLOG, "certs", str(folder), "--host", "localhost", "--host", "127.0.0.1"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    port, health = free_ports(2)
    log = folder / _LOG
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*_TOPOLOG, "up"],
            env=_environment(folder, api, port, health),
            stdout=out,
            stderr=out,
            preexec_fn=parent_death.terminates(),
        )
    try:
        _await_ready(process, log, health)
        _write_client_environment(folder, port, health)
        yield f"https://127.0.0.1:{port}", process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(folder: Path, api: str, port: int, health: int) -> dict[str, str]:
    kubeconfig = folder / "kubeconfig"
    # JSON is valid YAML.
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "simulated", "cluster": {"server": api}}],
                "users": [{"name": "demo", "user": {}}],
                "contexts": [{"name": "demo", "context": {"cluster": "simulated", "user": "demo"}}],
                "current-context": "demo",
            }
        )
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOPOLOG_", "TLS_"))}
    return kept | {
        "XDG_STATE_HOME": str(folder / "state"),
        "TOPOLOG_CLUSTER": _CLUSTER,
        "TOPOLOG_PLUGINS_ENABLED": ",".join(
            ("*", *(one.name for one in plugins.IN_TREE if one not in plugins.USUAL))
        ),
        "TOPOLOG_KUBE_KUBECONFIG": str(kubeconfig),
        "TOPOLOG_SERVER_BIND": "127.0.0.1",
        "TOPOLOG_SERVER_PORT": str(port),
        "TOPOLOG_SERVER_HEALTH_PORT": str(health),
        "TOPOLOG_TLS_CERT": str(folder / "server.crt"),
        "TOPOLOG_TLS_KEY": str(folder / "server.key"),
        "TOPOLOG_TLS_CA": str(folder / "ca.crt"),
    }


def _write_client_environment(folder: Path, port: int, health: int) -> None:
    """Write ENVIRONMENT: the program, the processes' addresses, and a viewer's certificate."""
    client = {
        "PATH": f"{Path(sys.executable).parent}:$PATH",
        "TOPOLOG_CLUSTER": _CLUSTER,
        "TOPOLOG_KUBE_KUBECONFIG": folder / "kubeconfig",
        "TOPOLOG_SERVER_HEALTH_PORT": health,
        "TOPOLOG_CLIENT_URL": f"https://127.0.0.1:{port}",
        "TOPOLOG_CLIENT_VIEW_URL": f"https://127.0.0.1:{port + 1}",
        "TOPOLOG_CLIENT_CA": folder / "ca.crt",
        "TOPOLOG_CLIENT_CERT": folder / "viewer.crt",
        "TOPOLOG_CLIENT_KEY": folder / "viewer.key",
    }
    lines = [f'export {name}="{value}"' for name, value in client.items()]
    (folder / ENVIRONMENT).write_text("\n".join(lines) + "\n")


def _await_ready(process: "subprocess.Popen[bytes]", log: Path, health: int) -> None:
    pool = urllib3.PoolManager(retries=False)
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if pool.request("GET", f"http://127.0.0.1:{health}/readyz", timeout=1).status == 200:
                return
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(0.1)
    raise StageFailed(f"topolog up did not become ready; {_tail(log)}")


def _tail(log: Path) -> str:
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    return f"the last lines of its log:\n{tail}"


def free_ports(count: int) -> list[int]:
    """Free ports of the loopback, each followed by five more for the processes of ``topolog up``."""
    found: list[int] = []
    while len(found) < count:
        port = _free_port()
        apart = all(abs(port - other) >= _RANGE for other in found)
        if apart and port + _RANGE <= 65_536 and all(map(_is_free, range(port + 1, port + _RANGE))):
            found.append(port)
    return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False
