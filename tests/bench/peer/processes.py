"""The trivial Go extender as a process."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

from tests.bench.peer import builds
from tests.support import child_processes, polling

SENTENCE = "workload policy bench/half: no capacity (rack-000 10/10)"
"""The peer's reason for a refusal: as long as a real reason, and the same for every node."""


@dataclasses.dataclass(frozen=True, slots=True)
class ApiServer:
    """The API server to which the peer sends Bindings: URL, the CA's file and a file with a token."""

    url: str
    ca: pathlib.Path
    token: pathlib.Path


@contextlib.contextmanager
def running(
    programs: builds.Programs,
    tls: pathlib.Path,
    folder: pathlib.Path,
    *,
    refuse: str = "",
    api_server: ApiServer | None = None,
) -> Iterator[str]:
    """Run a peer and yield its URL; with `refuse` it refuses every second node with that sentence."""
    flags = [f"--cert={tls / 'server.crt'}", f"--key={tls / 'server.key'}", f"--ca={tls / 'ca.crt'}"]
    flags += [f"--refuse={refuse}"] if refuse else []
    if api_server is not None:
        flags += [
            f"--api-server={api_server.url}",
            f"--api-ca={api_server.ca}",
            f"--api-token={api_server.token}",
        ]
    address = f"127.0.0.1:{child_processes.free_port()}"
    log = folder / f"peer-{address.rpartition(':')[2]}.log"
    process = child_processes.Process("peer", [programs.extender, f"--listen={address}", *flags], log=log)
    process.start()
    try:
        polling.ready(process, lambda: "serving on" in process.tail())
        yield f"https://{address}"
    finally:
        process.stop()
