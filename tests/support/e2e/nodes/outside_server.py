"""A store that is no pod: a server on the nodes' side of the pods' network, as one outside the cluster."""

import json
import pathlib
import urllib.parse

import redis

from app.store.server import embedded
from tests.support import child_processes, polling
from tests.support.e2e.nodes import networks, process_kubelets

PORT = 6379
Entries = list[tuple[bytes, dict[bytes, bytes]]]


class OutsideServer:
    """A server with an access list, which pods reach at the address of their gateway."""

    def __init__(
        self, kubelet: process_kubelets.ProcessKubelet, folder: pathlib.Path, users: pathlib.Path
    ) -> None:
        folder.mkdir()
        self._socket = folder / "server.sock"  # reached by the test, which is in another network
        lines = [
            f"bind {networks.GATEWAY}",
            f"port {PORT}",
            f"unixsocket {self._socket}",
            f"dir {folder}",
            f"aclfile {users}",
            "appendonly yes",
            "maxmemory 256mb",
            "maxmemory-policy noeviction",
        ]
        (folder / "server.conf").write_text("\n".join([*lines, ""]))
        command = kubelet.on_a_node(embedded.find_binary(), folder / "server.conf")
        self._process = child_processes.Process("store", command, log=folder / "server.log")

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process.start()
        polling.eventually(self._socket.exists, "the store listens", seen=self._process.tail)

    def stop(self) -> None:
        """Stop it."""
        self._process.stop()

    def types(self, url: str, stream: str) -> list[str]:
        """The types of the events in a log, as the user of a URL reads them."""
        user = urllib.parse.urlsplit(url)
        with redis.Redis(
            unix_socket_path=str(self._socket), username=user.username, password=user.password
        ) as client:
            entries: Entries = client.execute_command("XRANGE", stream, "-", "+")
        return [json.loads(fields[b"e"])["type"] for _, fields in entries]
