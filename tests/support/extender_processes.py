"""Topolog's extender as its users run it: the `topolog extender` command, mTLS, a store beside it."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import urllib3

from app.simulation.apiserver import apiservers
from tests.support import child_processes, declared, polling
from tests.support.e2e import identities

TOPOLOG = pathlib.Path(sys.executable).with_name("topolog")
EMPTY = "empty.kubeconfig"
"""The file, in the folder of an extender without a kubeconfig, of an API server without objects."""
_NOWHERE = "https://127.0.0.1:9"


@dataclasses.dataclass(frozen=True, slots=True)
class Extender:
    """A running extender."""

    url: str
    process: child_processes.Process
    health: str
    """The URL of its plain port."""

    def await_ready(self) -> None:
        """Return once it is ready; fail if it ends first."""
        polling.ready(self.process, lambda: _ready(f"{self.health}/readyz"), within=120)

    def memory(self) -> int:
        """The bytes that the extender and its workers hold in RAM (VmRSS)."""
        return sum(_resident(pid) for pid in family(self.process.pid))

    def cpu(self) -> float:
        """The seconds of CPU that the threads of the extender and its workers have had."""
        return sum(_worked(pid) for pid in family(self.process.pid)) / 1e9

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop it and its workers as SIGSTOP does; they continue after the block."""
        for pid in family(self.process.pid):
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in family(self.process.pid):
                os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def running(
    store: str,
    cluster: str,
    tls: pathlib.Path,
    folder: pathlib.Path,
    *,
    kubeconfig: pathlib.Path | None = None,
    more: Mapping[str, str] | None = None,
) -> Iterator[Extender]:
    """Run an extender for a cluster of the store; yields once it is ready.

    Without a kubeconfig its API server has no objects: enough for all verbs but bind. ``more``: variables of
    further settings.
    """
    with contextlib.ExitStack() as stack:
        if kubeconfig is None:
            server = stack.enter_context(apiservers.ApiServer(declared.SCHEMA)).url
            kubeconfig = _kubeconfig(folder / EMPTY, tls, server)
        yield stack.enter_context(_started("extender", store, cluster, tls, folder, kubeconfig, more or {}))


@contextlib.contextmanager
def viewing(store: str, cluster: str, tls: pathlib.Path, folder: pathlib.Path) -> Iterator[Extender]:
    """Run ``topolog view`` for a cluster of the store; yields once it is ready."""
    with _started("view", store, cluster, tls, folder) as view:
        yield view


@contextlib.contextmanager
def _started(
    command: str,
    store: str,
    cluster: str,
    tls: pathlib.Path,
    folder: pathlib.Path,
    kubeconfig: pathlib.Path | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Extender]:
    port, health = child_processes.free_port(), child_processes.free_port()
    environ = settings(store, cluster, tls, folder, port=port, health=health, kubeconfig=kubeconfig)
    process = child_processes.Process(
        f"{command}-{cluster}",
        [TOPOLOG, command],
        log=folder / f"{command}-{cluster}.log",
        env=os.environ | environ | dict(more),
    )
    process.start()
    try:
        extender = Extender(f"https://127.0.0.1:{port}", process, f"http://127.0.0.1:{health}")
        extender.await_ready()
        yield extender
    finally:
        process.stop()


def settings(
    store: str,
    cluster: str,
    tls: pathlib.Path,
    folder: pathlib.Path,
    *,
    port: int,
    health: int,
    kubeconfig: pathlib.Path | None = None,
) -> dict[str, str]:
    """The environment of an extender: all but its ports, its certificates and its store is as it comes."""
    return {
        "TOPOLOG_CLUSTER": cluster,
        "TOPOLOG_STORE_URL": store,
        "TOPOLOG_STORE_REQUIRE_DURABLE": "false",
        "TOPOLOG_KUBE_KUBECONFIG": str(
            kubeconfig or _kubeconfig(folder / "nowhere.kubeconfig", tls, _NOWHERE)
        ),
        "TOPOLOG_SERVER_BIND": "127.0.0.1",
        "TOPOLOG_SERVER_PORT": str(port),
        "TOPOLOG_VIEW_PORT": str(port),
        "TOPOLOG_SERVER_HEALTH_PORT": str(health),
        "TOPOLOG_TLS_CERT": str(tls / "server.crt"),
        "TOPOLOG_TLS_KEY": str(tls / "server.key"),
        "TOPOLOG_TLS_CA": str(tls / "ca.crt"),
    }


def _kubeconfig(path: pathlib.Path, tls: pathlib.Path, server: str) -> pathlib.Path:
    return identities.write_kubeconfig(path, server=server, ca=tls / "ca.crt", token="none")


def _ready(url: str) -> bool:
    return urllib3.request("GET", url, timeout=2.0, retries=False).status == 200


def family(pid: int) -> list[int]:
    """The process and everything that it started."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _worked(pid: int) -> int:
    """Nanoseconds of CPU of the threads that the process has."""
    total = 0
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
    return total


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
