"""The doctor: a fault planted in a real server is found, with a reason and a command."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import pytest
import redis

from app.doctor import store_checks
from app.store import errors, keys, schemas
from app.store.health import checks, doctor, durability, readiness
from app.store.server import acl, connections
from migrations import runner
from tests.support import polling
from tests.support.store import guarded_server, servers


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[guarded_server.Guarded]:
    made = guarded_server.Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.close()


# -- findings ------------------------------------------------------------------------------


RIGHT = {
    "Q02",
    "Q03",
    "Q04",
    "Q07",
    "Q09",
    "Q10",
    "Q12",
    "Q13",
    "Q19",
    "Q21",
    "Q22",
    "Q23",
    "Q24",
    "Q25",
    "Q26",
    "Q27",
    "Q29",
    "Q30",
}
"""Checks that a sound server passes; the others report only what is wrong."""


def test_a_sound_server_has_nothing_wrong(guarded: guarded_server.Guarded) -> None:
    found = guarded_server.examined(guarded)
    wrong = {one.subject for one in found.values() if one.grade != "good"}
    # What is not available here: TLS, and perhaps a patched release.
    assert wrong <= {"transport", "version"}
    assert {f"user {role.user(guarded_server.CLUSTER)}" for role in acl.ROLES} <= set(found)
    good = {store_checks.check_of(one.subject).id for one in found.values() if one.grade == "good"}
    assert good - {"Q01"} == RIGHT


@pytest.mark.parametrize(
    ("name", "value", "subject", "grade", "loses"),
    [
        ("appendonly", "no", "appendonly", "bad", True),
        ("appendfsync", "no", "appendfsync", "bad", True),
        ("no-appendfsync-on-rewrite", "yes", "no-appendfsync-on-rewrite", "poor", False),
        ("maxmemory-policy", "allkeys-lru", "maxmemory-policy", "bad", True),
        ("maxmemory-policy", "volatile-ttl", "maxmemory-policy", "bad", True),
        ("maxmemory", "0", "maxmemory", "poor", False),
        ("min-replicas-to-write", "0", "min-replicas-to-write", "poor", False),
        ("min-replicas-max-lag", "60", "min-replicas-max-lag", "poor", False),
    ],
)
def test_a_setting_that_does_harm_is_found(
    guarded: guarded_server.Guarded, name: str, value: str, subject: str, grade: str, loses: bool
) -> None:
    with guarded.set_to(name, value):
        found = guarded_server.examined(guarded)[subject]
    assert (found.grade, found.loses) == (grade, loses)
    assert found.why
    assert "CONFIG SET" in found.run


def test_keys_of_another_program_are_found(guarded: guarded_server.Guarded) -> None:
    assert guarded_server.examined(guarded)["other keys"].grade == "good"
    guarded.admin.set("session:of-a-shop", "1")
    try:
        found = guarded_server.examined(guarded)["other keys"]
        total = guarded.admin.dbsize()
        assert (found.grade, found.found) == ("poor", f"1 of {total} keys are not Topolog's")
    finally:
        guarded.admin.delete("session:of-a-shop")


def test_an_old_snapshot_file_is_found(guarded: guarded_server.Guarded) -> None:
    guarded.admin.save()
    with guarded.set_to("save", "3600 1"):
        seen = readiness.facts(guarded.admin)
    now = guarded.admin.time()[0]
    assert checks.snapshot(seen, now).grade == "good"
    assert checks.snapshot(seen, now + 23 * 3600).grade == "good"
    late = checks.snapshot(seen, now + 25 * 3600)
    assert (late.grade, late.found) == ("poor", "25 h old")
    assert "BGSAVE" in late.run


def test_a_server_that_writes_no_snapshot_file_needs_an_append_only_file(
    guarded: guarded_server.Guarded,
) -> None:
    guarded.admin.save()
    late = guarded.admin.time()[0] + 25 * 3600
    with guarded.set_to("save", ""):
        right = checks.snapshot(readiness.facts(guarded.admin), late)
        assert (right.grade, right.found) == ("good", "none is written: back up the append-only file")
        with guarded.set_to("appendonly", "no"):
            assert checks.snapshot(readiness.facts(guarded.admin), late).grade == "poor"


def test_functions_that_are_not_this_versions_are_found(guarded: guarded_server.Guarded) -> None:
    guarded.admin.function_load(schemas.library() + "\n-- changed", replace=True)
    assert guarded_server.examined(guarded)["functions"].found == "outdated"
    guarded.admin.function_delete(runner.library_name(schemas.library()))
    try:
        assert guarded_server.examined(guarded)["functions"].found == "missing"
    finally:
        guarded.admin.function_load(schemas.library(), replace=True)
    guarded.admin.hset(guarded_server.NAMES.meta, "schema", "99")
    try:
        assert guarded_server.examined(guarded)["schema"].grade == "bad"
    finally:
        guarded.admin.hset(guarded_server.NAMES.meta, "schema", keys.SCHEMA)


@pytest.mark.parametrize(
    ("rule", "grade", "text"),
    [
        ("+flushall", "poor", "may flushall"),
        ("+@all", "poor", "may flushall"),
        ("~*", "poor", "may hget another-key"),
        ("+fcall", "poor", "may fcall topolog_rewind_2"),
        ("-xread", "bad", "may not xread streams"),
        ("-xadd", "bad", "may not xadd"),
        ("resetkeys", "bad", "may not"),
    ],
)
def test_a_user_with_too_many_or_too_few_permissions_is_found(
    guarded: guarded_server.Guarded, rule: str, grade: str, text: str
) -> None:
    user = f"topolog-{guarded_server.CLUSTER}-extender"
    guarded.run("ACL", "SETUSER", user, rule)
    try:
        found = guarded_server.examined(guarded)[f"user {user}"]
        assert found.grade == grade
        assert text in found.found
        # The suggested command fixes it.
        command, _, bundled = found.run.partition("; the bundled store: ")
        assert bundled
        guarded.run(*command.replace(f"SETUSER {user}", f"SETUSER {user} resetkeys").split())
        assert guarded_server.examined(guarded)[f"user {user}"].grade == "good"
    finally:
        guarded.run("ACL", "LOAD")


def test_an_open_door_is_found(guarded: guarded_server.Guarded) -> None:
    guarded.run("ACL", "SETUSER", "default", "on", "nopass", "+@all", "~*")
    try:
        assert guarded_server.examined(guarded)["user default"].grade == "bad"
        guarded.run("ACL", "SETUSER", "default", "resetpass", ">x")
        assert guarded_server.examined(guarded)["user default"].grade == "poor"
    finally:
        guarded.run("ACL", "LOAD")


def test_a_default_user_with_whose_rights_the_log_cannot_be_loaded_is_found(
    guarded: guarded_server.Guarded,
) -> None:
    guarded.run("ACL", "SETUSER", "default", "-@all")
    try:
        found = guarded_server.examined(guarded)["user default"]
        assert (found.grade, found.found) == ("bad", "may not write")
    finally:
        guarded.run("ACL", "LOAD")
    assert guarded_server.examined(guarded)["user default"].grade == "good"


def test_a_check_without_permission_is_reported_as_unsure(guarded: guarded_server.Guarded) -> None:
    found = guarded_server.examined(guarded, "recorder")
    unseen = {one.subject for one in found.values() if one.grade == "unsure"}
    unreadable = {
        "configuration",
        "users",
        "functions",
        "keys",
        "other keys",
        "log",
        "snapshot file",
        "clock",
    }
    assert unseen == unreadable - ({"clock"} if found["clock"].grade == "good" else set())
    assert found["appendonly"].grade == "good"
    synced = dataclasses.replace(guarded.options("recorder"), placements="fsync")
    (placements,) = (
        one for one in doctor.examine(synced, guarded_server.NAMES) if one.subject == "placements"
    )
    assert (placements.grade, placements.why) == ("unsure", "this user has no +config|get")


def test_a_replica_is_refused_as_a_store(guarded: guarded_server.Guarded) -> None:
    with redis.Redis(port=guarded.replica.port, username="admin", password="any") as client:
        found = {one.subject: one for one in durability.losses(readiness.facts(client))}
    assert found["role"].grade == "bad"
    assert str(guarded.server.port) in found["role"].found


INFO = {"role": "master", "aof_enabled": "1", "maxmemory_policy": "noeviction"}


@pytest.mark.parametrize(
    ("info", "grade"),
    [
        ({"redis_version": "6.2.14"}, "bad"),
        ({"redis_version": "7.0.15"}, "poor"),
        ({"redis_version": "7.2.10"}, "poor"),
        ({"redis_version": "7.2.11"}, "good"),
        ({"redis_version": "8.2.1"}, "poor"),
        ({"redis_version": "8.4.0"}, "good"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.3"}, "poor"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.4"}, "good"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, "good"),
    ],
)
def test_versions(info: Mapping[str, str], grade: str) -> None:
    assert checks.version(checks.ServerFacts(info)).grade == grade


@pytest.mark.parametrize(
    ("info", "grades"),
    [
        ({"redis_mode": "cluster", "redis_version": "7.2.4", "valkey_version": "9.0.0"}, ["bad"]),
        ({"server_mode": "cluster", "redis_version": "7.2.4", "valkey_version": "9.0.1"}, ["bad"]),
        ({"redis_mode": "cluster", "redis_version": "7.2.4", "valkey_version": "9.0.2"}, ["good"]),
        ({"redis_mode": "cluster", "redis_version": "7.2.4", "valkey_version": "8.1.4"}, ["good"]),
        ({"redis_mode": "cluster", "redis_version": "9.0.0"}, ["good"]),
        ({"redis_mode": "standalone", "redis_version": "7.2.4", "valkey_version": "9.0.0"}, []),
    ],
)
def test_a_cluster_node_that_misloads_its_file_is_found(info: Mapping[str, str], grades: list[str]) -> None:
    found = [
        one for one in durability.losses(checks.ServerFacts({**INFO, **info})) if one.subject == "aof loading"
    ]
    assert [one.grade for one in found] == grades
    assert [one.loses for one in found] == [grade == "bad" for grade in grades]


def test_a_disk_or_memory_that_is_full_is_found() -> None:
    failed = checks.ServerFacts(INFO | {"aof_last_write_status": "err", "aof_last_bgrewrite_status": "err"})
    found = list(durability.persistence(failed))
    assert [one.grade for one in found] == ["good", "bad", "poor"]
    assert "the bundled store" in found[-1].run
    for used, grade in ((50, "good"), (85, "poor"), (99, "bad")):
        facts = checks.ServerFacts(INFO | {"maxmemory": "100", "used_memory": str(used)})
        (one,) = durability.memory(facts)
        assert (one.grade, "store.bundled.maxMemory" in one.run) == (grade, grade != "good")
    evicted = checks.ServerFacts(INFO | {"maxmemory": "100", "evicted_keys": "7"})
    assert [one.subject for one in durability.memory(evicted)] == ["maxmemory", "evicted keys"]


def test_distance_and_clocks() -> None:
    assert [checks.latency([ms]).grade for ms in (0.2, 7.0, 80.0)] == ["good", "poor", "bad"]
    assert [checks.clock(ms).grade for ms in (-900.0, 1100.0, -3e6)] == ["good", "poor", "poor"]


def test_a_node_of_a_redis_cluster_is_not_asked_as_one_server() -> None:
    assert checks.mode(checks.ServerFacts({"redis_mode": "cluster"})).grade == "bad"
    assert checks.mode(checks.ServerFacts({"server_mode": "cluster"}, kind="cluster")).grade == "good"


# -- readiness -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "durable", "ready"),
    [
        ("appendonly", "no", True, False),
        ("appendonly", "no", False, True),
        ("appendfsync", "no", True, True),  # an extender may not see it; the doctor does
        ("maxmemory-policy", "allkeys-lru", True, False),
        ("maxmemory-policy", "allkeys-lru", False, False),
    ],
)
def test_no_process_is_ready_on_a_store_that_loses_data(
    guarded: guarded_server.Guarded, name: str, value: str, durable: bool, ready: bool
) -> None:
    with (
        guarded.set_to(name, value),
        schemas.connect(guarded.options("extender"), guarded_server.NAMES) as client,
    ):
        problem = readiness.DurabilityCheck(client, durable=durable).problem()
    assert (problem is None) == ready
    if problem is not None:
        assert name in problem
        assert "CONFIG SET" in problem


def test_a_server_that_loads_its_file_is_away_and_not_without_one(
    guarded: guarded_server.Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "EVERY", 0.0)
    monkeypatch.setattr(readiness, "_SOON", 0.0)
    looked = readiness.DurabilityCheck(guarded.admin, durable=True)
    assert looked.problem() is None
    found = {**guarded.admin.info(), "loading": 1, "aof_enabled": 0}
    with mock.patch.object(guarded.admin, "info", return_value=found):
        assert looked.problem() is None
        with pytest.raises(errors.StoreAway, match="loading its data"), connections.translated():
            readiness.facts(guarded.admin)
    assert looked.problem() is None


def test_the_last_result_remains_while_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "EVERY", 0.0)
    monkeypatch.setattr(readiness, "_SOON", 0.0)
    server = servers.Server(tmp_path / "s", ["appendonly yes"])
    with connections.connect(f"redis://{server.address}") as client:
        looked = readiness.DurabilityCheck(client, durable=True)
        server.kill()
        assert "not been checked" in (looked.problem() or "")
        server.start()
        # On a loaded machine an attempt may still find no server.
        polling.eventually(lambda: looked.problem() is None, "it is checked")
        server.kill()
        assert looked.problem() is None
        server.start()
        server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        polling.eventually(lambda: "maxmemory-policy" in (looked.problem() or ""), "it is checked again")
        server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        polling.eventually(lambda: looked.problem() is None, "the policy is right again")
    server.kill()
