"""Real server processes, as operators run them: single ones, under sentinels, as a cluster."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import redis

from app.store.server import embedded
from tests.support import child_processes

LIMIT = 30.0
"""Seconds that anything here may take."""
MASTER = "topolog"

HURRIED = ["INFO-PERIOD", "1000", "PUBLISH-PERIOD", "200"]
"""Milliseconds; they wait seconds otherwise before they make a returned master a replica."""
_BOUNDS = (0, 5461, 10923, 16384)
"""Where the slots of the nodes begin."""


def eventually(holds: Callable[[], object], what: str) -> None:
    """Wait until it holds; while servers change roles, errors of theirs count as not yet."""
    end = time.monotonic() + LIMIT
    while True:
        with contextlib.suppress(redis.RedisError, OSError):
            if holds():
                return
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def suspended(pid: int | None) -> Iterator[None]:
    """Stop a process as SIGSTOP does; it continues after the block."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Server:
    """One process on a port of the loopback interface, with lines of configuration."""

    def __init__(
        self, directory: Path, lines: Sequence[str] = (), *, sentinel: bool = False, binary: str = ""
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.port = child_processes.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.lines = lines
        self._log = directory / "server.log"
        configuration = directory / "server.conf"
        first = [f"port {self.port}", "bind 127.0.0.1", f"dir {directory}"]
        configuration.write_text("\n".join([*first, *([] if sentinel else ['save ""']), *lines, ""]))
        self._command = [binary or embedded.find_binary(), str(configuration)]
        self._command += ["--sentinel"] if sentinel else []
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A file that may not grow is then an error of the write and not the end of the process.
                restore_signals=False,
            )
        eventually(self._listens, f"{self.address} listens; {self._log.read_text()[-500:]}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def ask(self, *command: str) -> object:
        with redis.Redis(port=self.port, socket_timeout=5.0, protocol=2) as client:
            reply: object = client.execute_command(*command)
            return reply

    @property
    def running(self) -> bool:
        return self._process is not None

    def kill(self) -> None:
        """As a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True


def tls_binary() -> str:
    """A server that speaks TLS: that of TLS_STORE, or one on PATH; empty without one."""
    for name in (os.environ.get("TLS_STORE", ""), "redis-server", "valkey-server"):
        path = shutil.which(name)
        if path is not None:
            # One that has TLS misses its certificate, the others reject the option.
            tried = [path, "--port", "0", "--tls-port", str(child_processes.free_port())]
            output = subprocess.run(tried, capture_output=True, text=True, timeout=20, check=False).stdout
            if "tls-cert-file" in output:
                return path
    return ""


class Watched:
    """A master, a replica, and sentinels that watch them."""

    def __init__(self, directory: Path, *, sentinels: int = 3) -> None:
        # By default a master waits five seconds for more replicas before it sends to the first.
        common = ["appendonly yes", "repl-diskless-sync-delay 0"]
        master = Server(directory / "master", common)
        replica = Server(directory / "replica", [*common, f"replicaof 127.0.0.1 {master.port}"])
        self.servers = [master, replica]
        monitor = [
            f"sentinel monitor {MASTER} 127.0.0.1 {master.port} {sentinels // 2 + 1}",
            f"sentinel down-after-milliseconds {MASTER} 500",
            f"sentinel failover-timeout {MASTER} 3000",
        ]
        self.sentinels = [
            Server(directory / f"s{number}", monitor, sentinel=True) for number in range(sentinels)
        ]
        for sentinel in self.sentinels:
            sentinel.ask("SENTINEL", "DEBUG", *HURRIED)
        self.await_complete()

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(one.address for one in self.sentinels)}/{MASTER}"

    @property
    def master(self) -> Server:
        """The one that the first sentinel calls so."""
        reply = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
        assert isinstance(reply, list)
        return next(server for server in self.servers if server.port == int(reply[1]))

    @property
    def replica(self) -> Server:
        master = self.master  # asked once: another answer in between would leave none
        return next(server for server in self.servers if server is not master)

    @contextlib.contextmanager
    def parted(self) -> Iterator[Server]:
        """The master, cut off from the replica, while the sentinels reach both."""
        master, replica = self.master, self.replica
        eventually(lambda: master.ask("WAIT", "1", "1000") == 1, "the replica has everything so far")
        with suspended(replica.pid):
            # What is sent from now on has no connection to wait in.
            master.ask("CLIENT", "KILL", "TYPE", "replica")
            yield master

    def await_complete(self) -> None:
        """All is well: sentinels that have found each other, and a replica that follows."""
        eventually(self._content, "the sentinels are content")
        eventually(lambda: "master_link_status:up" in info(self.replica), "the replica follows")

    def _content(self) -> bool:
        return all(_content(sentinel, len(self.sentinels) - 1) for sentinel in self.sentinels)

    def close(self) -> None:
        for server in (*self.sentinels, *self.servers):
            server.kill()


class Sharded:
    """A Redis Cluster of three masters, and spare nodes without slots."""

    def __init__(self, directory: Path, *, spare: int = 0) -> None:
        lines = ["cluster-enabled yes", "cluster-node-timeout 2000", "appendonly yes"]
        made = [
            Server(directory / f"n{number}", [*lines, f"cluster-port {child_processes.free_port()}"])
            for number in range(3 + spare)
        ]
        self.nodes, self.spare = made[:3], made[3:]
        first = self.nodes[0]
        for node, (low, high) in zip(self.nodes, itertools.pairwise(_BOUNDS), strict=True):
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(low), str(high - 1))
        for number, node in enumerate(made):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            bus = next(line.split()[1] for line in node.lines if line.startswith("cluster-port"))
            if node is not first:
                first.ask("CLUSTER", "MEET", "127.0.0.1", str(node.port), bus)
        for node in made:
            eventually(partial(_whole, node), "the cluster is whole")

    @property
    def url(self) -> str:
        return f"redis+cluster://{','.join(node.address for node in (*self.nodes, *self.spare))}"

    def move(self, key: str) -> None:
        """Give the slot of a key to another node, keys and all, as an operator does it."""
        slot = str(self.nodes[0].ask("CLUSTER", "KEYSLOT", key))
        number = int(slot)
        here = next(at for at in range(3) if _BOUNDS[at] <= number < _BOUNDS[at + 1])
        source, target = self.nodes[here], self.nodes[here - 1]
        theirs, ours = (_bytes(node.ask("CLUSTER", "MYID")).decode() for node in (target, source))
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ours)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", theirs)
        found = source.ask("CLUSTER", "GETKEYSINSLOT", slot, "1000")
        assert isinstance(found, list)
        named = [_bytes(one).decode() for one in found]
        source.ask("MIGRATE", "127.0.0.1", str(target.port), "", "0", "5000", "KEYS", *named)
        for node in (target, source, self.nodes[here - 2]):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", theirs)

    def close(self) -> None:
        for node in (*self.nodes, *self.spare):
            node.kill()


def info(server: Server) -> str:
    """INFO as text."""
    with redis.Redis(port=server.port, socket_timeout=5.0) as client:
        client.response_callbacks.clear()
        reply = client.execute_command("INFO")
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def _content(sentinel: Server, others: int) -> bool:
    reply = sentinel.ask("SENTINEL", "MASTER", MASTER)
    assert isinstance(reply, list)
    state = dict(zip(reply[::2], reply[1::2], strict=True))
    return (
        int(state[b"num-other-sentinels"]) == others
        and int(state[b"num-slaves"]) >= 1
        and state[b"flags"] == b"master"
    )


def _whole(node: Server) -> bool:
    reply = node.ask("CLUSTER", "INFO")
    known = node.ask("CLUSTER", "SLOTS")
    return b"cluster_state:ok" in _bytes(reply) and isinstance(known, list) and len(known) >= 3


def _bytes(reply: object) -> bytes:
    return reply if isinstance(reply, bytes) else str(reply).encode()
