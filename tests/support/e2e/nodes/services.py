"""Cluster IPs: a proxy in user space, as kube-proxy once was, for each port of a Service.

A connection goes to a ready address of the Service's EndpointSlices, which the real controller writes. The
Service `kubernetes` goes to the API server on the machine's loopback address.
"""

import contextlib
import random
import socket
import threading
import urllib.parse

from tests.support.e2e import api_client
from tests.support.e2e.nodes import networks

API = ("default", "kubernetes")


class Services:
    """Proxies for the Services of some namespaces, and for the API server."""

    def __init__(self, api: api_client.Api, network: networks.Network) -> None:
        self._api = api
        self._network = network
        self._lock = threading.Lock()
        self._listening: dict[tuple[str, str], str] = {}
        self._sockets: list[socket.socket] = []

    def start(self) -> str:
        """Serve the API server's address, which is returned."""
        self.update("default")
        return self._listening[API]

    def stop(self) -> None:
        """Close all connections."""
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def update(self, namespace: str) -> dict[str, str]:
        """Serve the Services that exist by now; the addresses of all, by name as pods resolve them."""
        with self._lock:
            for one in self._api.list(f"/api/v1/namespaces/{namespace}/services"):
                identity = (namespace, one["metadata"]["name"])
                address = one["spec"].get("clusterIP", "None")
                if identity not in self._listening and address != "None":
                    self._listening[identity] = address
                    self._network.add_address(address)
                    for port in one["spec"]["ports"]:
                        self._listen(identity, address, port)
            found: dict[str, str] = {}
            for (space, name), address in self._listening.items():
                full = f"{name}.{space}.svc"
                names = [full, f"{full}.cluster.local", f"{name}.{space}"]
                found |= dict.fromkeys([*names, *([name] if space == namespace else [])], address)
            return found

    def _listen(self, identity: tuple[str, str], address: str, port: api_client.Object) -> None:
        listener = self._network.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port["port"]))
        listener.listen(128)
        self._sockets.append(listener)
        name = "-".join(identity)
        threading.Thread(
            target=self._accept, args=(listener, identity, port), name=f"service-{name}", daemon=True
        ).start()

    def _accept(self, listener: socket.socket, identity: tuple[str, str], port: api_client.Object) -> None:
        with contextlib.suppress(OSError):  # the end
            while True:
                caller, _ = listener.accept()
                threading.Thread(target=self._serve, args=(caller, identity, port), daemon=True).start()

    def _serve(self, caller: socket.socket, identity: tuple[str, str], port: api_client.Object) -> None:
        try:
            callee = self._connect(identity, port)
        except (OSError, LookupError, api_client.ApiError):
            caller.close()
            return
        with self._lock:
            self._sockets += [caller, callee]
        back = threading.Thread(target=_copy, args=(callee, caller), daemon=True)
        back.start()
        _copy(caller, callee)
        back.join()
        with self._lock:
            for each in (caller, callee):
                if each in self._sockets:
                    self._sockets.remove(each)
                each.close()

    def _connect(self, identity: tuple[str, str], port: api_client.Object) -> socket.socket:
        if identity == API:
            server = urllib.parse.urlsplit(self._api.server)
            return socket.create_connection((str(server.hostname), int(server.port or 443)), 5)
        namespace, name = identity
        slices = self._api.list(
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
            labels=f"kubernetes.io/service-name={name}",
        )
        ready = [
            (address, each["port"])
            for one in slices
            for each in one["ports"] or []
            if each.get("name", "") == port.get("name", "")
            for endpoint in one["endpoints"] or []
            if endpoint["conditions"].get("ready")
            for address in endpoint["addresses"]
        ]
        address = random.choice(ready)
        made = self._network.socket()
        try:
            made.settimeout(5)
            made.connect(address)
        except OSError:
            made.close()
            raise
        return made


def _copy(source: socket.socket, target: socket.socket) -> None:
    for each in (source, target):
        each.settimeout(None)
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
