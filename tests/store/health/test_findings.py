"""What `topolog doctor store` finds on real servers that are damaged or misconfigured."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app import settings
from app.store import schemas
from app.store.health import checks, doctor
from tests.support import declared
from tests.support.store import servers

NAMES = declared.names("c")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[servers.Server]:
    """A migrated server of its own."""
    made = servers.Server(tmp_path / "s", ["appendonly yes", "auto-aof-rewrite-percentage 0"])
    with schemas.connect(options(made), NAMES) as client:
        assert schemas.migrate(client, NAMES, declared.SCHEMA).ready
    yield made
    made.kill()


def options(server: servers.Server) -> settings.Store:
    return settings.Store(url=f"redis://{server.address}")


def examined(server: servers.Server) -> dict[str, checks.Finding]:
    return {one.subject: one for one in doctor.examine(options(server), NAMES)}


def test_a_key_of_another_type_is_found(server: servers.Server) -> None:
    assert examined(server)["keys"].grade == "good"
    server.ask("SET", NAMES.readers, "of another program")
    found = examined(server)["keys"]
    assert (found.grade, found.found) == ("bad", f"{NAMES.readers} is a string")
    server.ask(*found.run.partition(";")[0].split())
    assert examined(server)["keys"].grade == "good"


def test_a_server_without_a_replica_is_found(server: servers.Server) -> None:
    found = examined(server)["replicas"]
    assert (found.grade, found.found) == ("poor", "none")


def test_keys_that_were_evicted_are_found(server: servers.Server) -> None:
    assert "evicted keys" not in examined(server)
    for number in range(100):
        server.ask("SET", f"volatile-{number}", "x" * 10_000, "EX", "1000")
    server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    server.ask("CONFIG", "SET", "maxmemory", "1mb")
    servers.eventually(lambda: "evicted keys" in examined(server), "the server has evicted some")
    found = examined(server)["evicted keys"]
    assert found.grade == "bad"
    assert "CONFIG" in found.run


def test_a_file_that_cannot_be_rewritten_is_found(server: servers.Server, tmp_path: Path) -> None:
    assert "aof rewrites" not in examined(server)
    # Where the rewritten file would be moved to, there is a folder.
    (tmp_path / "s" / "appendonlydir" / "appendonly.aof.2.base.rdb" / "in the way").mkdir(parents=True)
    server.ask("BGREWRITEAOF")
    servers.eventually(lambda: "aof rewrites" in examined(server), "it has failed")
    assert examined(server)["aof rewrites"].grade == "poor"


def test_a_connection_in_the_clear_is_found(server: servers.Server) -> None:
    found = examined(server)["transport"]
    assert (found.grade, found.found) == ("poor", "plain TCP")
