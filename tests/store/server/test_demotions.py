"""Readers and writers leave a server that became a replica."""

from functools import partial
from pathlib import Path

import pytest

from app.store import errors, keys, stores
from app.store.server import connections, discovery
from tests.support import child_processes
from tests.support.store import deployments, servers


def linked(replica: servers.Server) -> bool:
    about = replica.ask("INFO", "replication")
    return isinstance(about, dict) and about["master_link_status"] == "up"


def reads(store: stores.Store, offset: int) -> bool:
    try:
        return store.follower.catch_up().offset == offset
    except (errors.StoreAway, errors.Rewound):
        return False


def test_a_server_that_became_a_replica_is_left(tmp_path: Path) -> None:
    """A sentinel closes the connections of clients; nothing closes them when a DNS name moves."""
    server = servers.Server(tmp_path / "one")
    store = deployments.opened(f"redis://{server.address}", "c", timeout=2.0)
    try:
        deployments.append(store, "a")
        pid = store.client.client_id()
        server.ask("REPLICAOF", "127.0.0.1", str(child_processes.free_port()))
        with pytest.raises(errors.StoreAway):
            deployments.append(store, "b")
        with pytest.raises(errors.StoreAway, match="elsewhere"), connections.translated():
            store.client.hset("topolog:{c}:x", "y", "z")
        server.ask("REPLICAOF", "NO", "ONE")
        assert deployments.append(store, "b").last == 2
        assert store.client.client_id() != pid
    finally:
        store.close()
        server.kill()


def test_readers_leave_a_server_that_became_a_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on answering reads, with what it had."""
    former = servers.Server(tmp_path / "one", ["repl-diskless-sync-delay 0"])
    present = servers.Server(tmp_path / "two")
    writing = deployments.opened(f"redis://{former.address}", "c", timeout=2.0)
    reading = deployments.opened(f"redis://{former.address}", "c", timeout=2.0)
    try:
        deployments.append(writing, "a")
        for store in (writing, reading):
            assert store.follower.catch_up().offset == 1
        assert reading.client.hget(reading.keys.meta, keys.HEAD) == b"1"
        present.ask("REPLICAOF", "127.0.0.1", str(former.port))
        servers.eventually(partial(linked, present), "the replica has everything")
        present.ask("REPLICAOF", "NO", "ONE")
        reading.follower.start()
        monkeypatch.setattr(discovery.Fixed, "find", lambda *_: ("127.0.0.1", present.port))
        former.ask("REPLICAOF", "127.0.0.1", str(child_processes.free_port()))
        assert deployments.append_until_done(writing, "b").last == 2
        assert writing.follower.catch_up().offset == 2
        servers.eventually(partial(reads, reading, 2), "the reader has left")
        reading.durability.problem()  # asked for readiness, it may see the role of the former server
        assert reading.client.hget(reading.keys.meta, keys.HEAD) == b"2"
    finally:
        for store in (writing, reading):
            store.close()
        for server in (former, present):
            server.kill()
