"""The network of the pods: one network namespace for each, joined by a bridge in a namespace of its own.

Nothing outside can be reached from it, and it cannot disturb the machine or another test. The API server,
which listens on the machine's loopback address, is reached through `services`.
"""

import contextlib
import ctypes
import ipaddress
import itertools
import os
import pathlib
import secrets
import socket
import subprocess
import threading
from collections.abc import Iterator

PODS = ipaddress.ip_network("10.244.0.0/16")
GATEWAY = PODS[1]
FOLDER = pathlib.Path("/run/netns")
"""Has a file for each namespace, by its name."""
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


class Network:
    """The bridge and the namespaces of the pods."""

    def __init__(self) -> None:
        self.name = f"topolog-{secrets.token_hex(3)}"
        self._numbers = itertools.count(10)
        self._lock = threading.Lock()
        self._made: list[str] = []

    def start(self) -> None:
        """Create the bridge."""
        self._add(self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        _ip("-n", self.name, "link", "add", "pods", "type", "bridge")
        _ip("-n", self.name, "address", "add", f"{GATEWAY}/{PODS.prefixlen}", "dev", "pods")
        _ip("-n", self.name, "link", "set", "pods", "up")

    def stop(self) -> None:
        """Delete all namespaces."""
        for name in reversed(self._made):
            _ip("netns", "delete", name)
        self._made.clear()

    def add_pod(self) -> tuple[str, str]:
        """Create the namespace of a pod; its name and address."""
        with self._lock:
            number = next(self._numbers)
            name = f"{self.name}-{number}"
            self._add(name)
            inner, address = f"pod{number}", str(PODS[number])
            peer = ("type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", self.name, "link", "add", inner, *peer)
            _ip("-n", self.name, "link", "set", inner, "master", "pods", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "address", "add", f"{address}/{PODS.prefixlen}", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "route", "add", "default", "via", str(GATEWAY))
            return name, address

    def delete_pod(self, name: str) -> None:
        """Delete the namespace of a pod, and with it its end of the bridge."""
        with self._lock:
            self._made.remove(name)
            _ip("netns", "delete", name)

    def add_address(self, address: str) -> None:
        """Let the nodes answer to an address, such as that of a Service."""
        _ip("-n", self.name, "address", "add", f"{address}/32", "dev", "lo")

    def socket(self) -> socket.socket:
        """A TCP socket on the nodes' side of the bridge."""
        with _inside(self.name):
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def _add(self, name: str) -> None:
        _ip("netns", "add", name)
        self._made.append(name)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


@contextlib.contextmanager
def _inside(name: str) -> Iterator[None]:
    """Move this thread, and no other one, into a network namespace."""
    library = ctypes.CDLL(None, use_errno=True)
    own = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    other = os.open(FOLDER / name, os.O_RDONLY)
    try:
        _enter(library, other)
        try:
            yield
        finally:
            _enter(library, own)
    finally:
        os.close(own)
        os.close(other)


def _enter(library: ctypes.CDLL, descriptor: int) -> None:
    if library.setns(descriptor, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "setns")
