"""Topolog's extender as its users run it: the `topolog extender` command, mTLS, a store beside it."""

import contextlib
import dataclasses
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping

import urllib3

from tests.e2e import processes, waiting

TOPOLOG = pathlib.Path(sys.executable).with_name("topolog")


@dataclasses.dataclass(frozen=True, slots=True)
class Extender:
    """A running extender."""

    url: str
    process: processes.Process

    def memory(self) -> int:
        """The bytes that the extender and its workers hold in RAM (VmRSS)."""
        return sum(_resident(pid) for pid in _family(self.process.pid))


@contextlib.contextmanager
def running(
    store: str,
    cluster: str,
    tls: pathlib.Path,
    folder: pathlib.Path,
    *,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Extender]:
    """Run an extender for a cluster of the store; yields once it says that it is ready."""
    port, health = processes.free_port(), processes.free_port()
    settings = {
        "TOPOLOG_CLUSTER": cluster,
        "TOPOLOG_STORE_URL": store,
        "TOPOLOG_SERVER_BIND": "127.0.0.1",
        "TOPOLOG_SERVER_PORT": str(port),
        "TOPOLOG_SERVER_HEALTH_PORT": str(health),
        "TOPOLOG_TLS_CERT": str(tls / "server.crt"),
        "TOPOLOG_TLS_KEY": str(tls / "server.key"),
        "TOPOLOG_TLS_CA": str(tls / "ca.crt"),
    }
    process = processes.Process(
        f"extender-{cluster}",
        [TOPOLOG, "extender"],
        log=folder / f"extender-{cluster}.log",
        env=os.environ | settings | dict(environ or {}),
    )
    process.start()
    try:
        waiting.ready(process, lambda: _ready(f"http://127.0.0.1:{health}/readyz"), within=120)
        yield Extender(f"https://127.0.0.1:{port}", process)
    finally:
        process.stop()


def _ready(url: str) -> bool:
    return urllib3.request("GET", url, timeout=2.0, retries=False).status == 200


def _family(pid: int) -> list[int]:
    """The process and everything that it started."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
