"""Placements that must be on the disk of a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import settings
from app.domain import events, model
from app.store import errors, schemas, stores
from app.store.health import checks, doctor, readiness
from app.store.log import batches
from app.store.server import acl, connections, embedded
from tests.support import declared
from tests.support.store import embedded_stores

PLACED = events.placed(model.Pod(uid="u", namespace="ns", name="p"), "n")
NAMES = declared.names("synced")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[embedded.Server]:
    made = embedded.Server(tmp_path, append_only=True)
    with connections.connect(made.url) as client:
        schemas.migrate(client, NAMES, declared.SCHEMA)
    yield made
    made.stop()


def options(server: embedded.Server, placements: str = "fsync") -> settings.Store:
    return settings.Store(url=server.url, placements=placements, socket_timeout=1.0)


@pytest.fixture
def store(server: embedded.Server) -> Iterator[stores.Store]:
    made = stores.open_store(options(server), schema=declared.SCHEMA, cluster=NAMES.cluster)
    yield made
    made.close()


def asked(store: stores.Store) -> int:
    """How often the server was asked whether it syncs."""
    found: Any = store.client.info("commandstats")
    return int(found.get("cmdstat_config|get", {"calls": 0})["calls"])


def test_a_placement_is_on_disk_with_a_server_that_always_syncs(store: stores.Store) -> None:
    store.client.config_set("appendfsync", "always")
    before = asked(store)
    store.log.append(batches.Batch(events=(events.Quarantined("pods", "p", "a test"),)))
    # A recorder, which may not ask, notes versions without events.
    store.log.append(batches.Batch(events=(), marks={"rv:pods": "5"}))
    assert asked(store) == before
    assert store.log.append(batches.Batch(events=(PLACED,))).last == 2
    assert asked(store) == before + 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("appendfsync", "everysec"),
        ("appendfsync", "no"),
        ("appendonly", "no"),
        ("no-appendfsync-on-rewrite", "yes"),
    ],
)
def test_a_placement_that_may_not_be_on_disk_is_of_unknown_outcome(
    store: stores.Store, setting: str, value: str
) -> None:
    store.client.config_set("appendfsync", "always")
    store.client.config_set(setting, value)
    with pytest.raises(errors.StoreAway, match=f"not known to be on disk: {setting} is {value}"):
        store.log.append(batches.Batch(events=(PLACED,)))
    # It may be lost, and it may not: until that is known it counts.
    assert [entry.event for entry in store.log.read(0)] == [PLACED]


def test_an_extender_is_not_ready_while_its_server_does_not_sync(store: stores.Store) -> None:
    store.client.config_set("no-appendfsync-on-rewrite", "yes")
    reason = (
        "an appended placement is not known to be on disk: appendfsync is everysec, no-appendfsync-on-rewrite"
        " is yes, and store.placements is fsync; run CONFIG SET appendfsync always no-appendfsync-on-rewrite"
        " no, then CONFIG REWRITE; the bundled store: config.store.placements of the chart, or the patch of"
        " docs/how-to/install.md"
    )
    assert readiness.AcceptanceCheck(store.log).problem() == reason
    store.client.config_set("no-appendfsync-on-rewrite", "no")
    store.client.config_set("appendfsync", "always")
    assert readiness.AcceptanceCheck(store.log).problem() is None


def test_the_doctor_finds_a_server_that_does_not_sync_placements(server: embedded.Server) -> None:
    def found(placements: str = "fsync") -> list[checks.Finding]:
        findings = doctor.examine(options(server, placements), NAMES)
        return [one for one in findings if one.subject == "placements"]

    with connections.connect(server.url) as client:
        client.config_set("no-appendfsync-on-rewrite", "yes")
        (wrong,) = found()
        assert (wrong.grade, wrong.found) == (
            "bad",
            "appendfsync is everysec, no-appendfsync-on-rewrite is yes, and store.placements is fsync",
        )
        client.execute_command(*wrong.run.partition(",")[0].split())
        assert [one.grade for one in found()] == ["good"]
        client.config_set("appendfsync", "everysec")
        assert found("acknowledged") == []


@pytest.mark.parametrize("folder", ["kept", None])
def test_an_embedded_server_syncs_if_placements_must_be_on_disk(tmp_path: Path, folder: str | None) -> None:
    directory = tmp_path / folder if folder else None
    with embedded_stores.opened(directory, "c", settings.Store(placements="fsync")) as made:
        assert made.store.log.append(batches.Batch(events=(PLACED,))).last == 1
        assert readiness.AcceptanceCheck(made.store.log).problem() is None


def test_the_extender_may_ask_only_where_it_has_to() -> None:
    (usual,) = (role for role in acl.ROLES if role.name == "extender")
    (synced,) = (role for role in acl.roles("fsync") if role.name == "extender")
    assert set(synced.granted) - set(usual.granted) == {"config|get"}
    assert acl.roles("acknowledged") == acl.ROLES
    lines = acl.access_list("c", "fsync").splitlines()
    (line,) = (line for line in lines if line.startswith("user topolog-c-extender "))
    assert "+config|get" in line.split()
