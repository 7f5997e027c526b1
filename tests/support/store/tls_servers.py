"""The bundled store with TLS, as the manifests start it, on a server of this machine that has TLS."""

import contextlib
import functools
import pathlib
import socket
import tempfile
from collections.abc import Iterator, Mapping

from tests.support import child_processes, manifests, polling


def arguments() -> list[str]:
    """What components/store-tls adds to the server's command."""
    (container,) = _pod()["containers"]
    found: list[str] = container["args"][3:]
    return found


def users_arguments() -> list[str]:
    """The command that makes the access list."""
    (container,) = _pod()["initContainers"]
    found: list[str] = container["args"]
    return found


@functools.cache
def _pod() -> manifests.Object:
    with tempfile.TemporaryDirectory() as folder:
        objects = manifests.with_component("dev", "store-tls", pathlib.Path(folder) / "kustomization")
    (server,) = [one for one in objects if one["kind"] == "StatefulSet"]
    found: manifests.Object = server["spec"]["template"]["spec"]
    return found


@contextlib.contextmanager
def running(folder: pathlib.Path, binary: str, port: int, mounted: Mapping[str, str]) -> Iterator[None]:
    """Run the server with these arguments; ``mounted``: path in the pod -> path here, and its port."""
    given = arguments()
    for inside, here in {**mounted, "6379": str(port)}.items():
        given = [each.replace(inside, here) for each in given]
    data = folder / "data"
    data.mkdir()
    fixed = ["--dir", str(data), "--bind", "127.0.0.1", "--appendonly", "yes", "--save", ""]
    limits = ["--maxmemory", "100mb", "--aclfile", str(folder / "users.acl")]
    process = child_processes.Process("store", [binary, *fixed, *limits, *given], log=folder / "server.log")
    process.start()
    try:
        polling.ready(process, lambda: _listens(port))
        yield
    finally:
        process.stop()


def _listens(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port)):
        return True
