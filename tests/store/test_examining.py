"""The doctor: a fault planted in a real server is found, with a reason and a command."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis

from app.store import (
    connecting,
    findings,
    keeping,
    keys,
    opening,
    permissions,
    vetting,
)
from migrations import running
from tests.store import guarding, servers


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[guarding.Guarded]:
    made = guarding.Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.close()


# -- findings ------------------------------------------------------------------------------


def test_a_sound_server_has_nothing_wrong(guarded: guarding.Guarded) -> None:
    found = guarding.examined(guarded)
    wrong = {one.subject for one in found.values() if one.grade != "good"}
    # What cannot be had here: TLS, and perhaps a patched release.
    assert wrong <= {"transport", "version"}
    assert {f"user {role.user(guarding.CLUSTER)}" for role in permissions.ROLES} <= set(found)
    assert {"appendonly", "appendfsync", "maxmemory-policy", "replicas", "functions", "clock"} <= set(found)


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
    guarded: guarding.Guarded, name: str, value: str, subject: str, grade: str, loses: bool
) -> None:
    with guarded.set_to(name, value):
        found = guarding.examined(guarded)[subject]
    assert (found.grade, found.loses) == (grade, loses)
    assert found.why
    assert "CONFIG SET" in found.run


def test_functions_that_are_not_this_versions_are_found(guarded: guarding.Guarded) -> None:
    guarded.admin.function_load(opening.library() + "\n-- changed", replace=True)
    assert guarding.examined(guarded)["functions"].found == "outdated"
    guarded.admin.function_delete(running.library_name(opening.library()))
    try:
        assert guarding.examined(guarded)["functions"].found == "missing"
    finally:
        guarded.admin.function_load(opening.library(), replace=True)
    guarded.admin.hset(guarding.NAMES.meta, "schema", "99")
    try:
        assert guarding.examined(guarded)["schema"].grade == "bad"
    finally:
        guarded.admin.hset(guarding.NAMES.meta, "schema", keys.SCHEMA)


@pytest.mark.parametrize(
    ("rule", "grade", "said"),
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
def test_a_user_who_may_too_much_or_too_little_is_found(
    guarded: guarding.Guarded, rule: str, grade: str, said: str
) -> None:
    user = f"topolog-{guarding.CLUSTER}-extender"
    guarded.run("ACL", "SETUSER", user, rule)
    try:
        found = guarding.examined(guarded)[f"user {user}"]
        assert found.grade == grade
        assert said in found.found
        # What it says to run mends it.
        guarded.run(*found.run.replace(f"SETUSER {user}", f"SETUSER {user} resetkeys").split())
        assert guarding.examined(guarded)[f"user {user}"].grade == "good"
    finally:
        guarded.run("ACL", "LOAD")


def test_an_open_door_is_found(guarded: guarding.Guarded) -> None:
    guarded.run("ACL", "SETUSER", "default", "on", "nopass", "+@all", "~*")
    try:
        assert guarding.examined(guarded)["user default"].grade == "bad"
        guarded.run("ACL", "SETUSER", "default", "resetpass", ">x")
        assert guarding.examined(guarded)["user default"].grade == "poor"
    finally:
        guarded.run("ACL", "LOAD")


def test_what_a_user_may_not_see_is_said(guarded: guarding.Guarded) -> None:
    found = guarding.examined(guarded, "recorder")
    unseen = {one.subject for one in found.values() if one.grade == "unsure"}
    assert unseen == {"configuration", "users", "functions", "keys", "log", "clock"} - (
        {"clock"} if found["clock"].grade == "good" else set()
    )
    assert found["appendonly"].grade == "good"


def test_a_replica_is_no_store(guarded: guarding.Guarded) -> None:
    with redis.Redis(port=guarded.replica.port, username="admin", password="any") as client:
        found = {one.subject: one for one in keeping.losses(vetting.facts(client))}
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
    assert findings.version(findings.Facts(info)).grade == grade


def test_a_disk_or_memory_that_is_full_is_found() -> None:
    failed = findings.Facts(INFO | {"aof_last_write_status": "err", "aof_last_bgrewrite_status": "err"})
    assert [one.grade for one in keeping.persistence(failed)] == ["good", "bad", "poor"]
    for used, grade in ((50, "good"), (85, "poor"), (99, "bad")):
        facts = findings.Facts(INFO | {"maxmemory": "100", "used_memory": str(used)})
        assert [one.grade for one in keeping.memory(facts)] == [grade]
    evicted = findings.Facts(INFO | {"maxmemory": "100", "evicted_keys": "7"})
    assert [one.subject for one in keeping.memory(evicted)] == ["maxmemory", "evicted keys"]


def test_distance_and_clocks() -> None:
    assert [findings.latency([ms]).grade for ms in (0.2, 7.0, 80.0)] == ["good", "poor", "bad"]
    assert [findings.clock(ms).grade for ms in (-900.0, 1100.0, -3e6)] == ["good", "poor", "poor"]


def test_a_node_of_a_redis_cluster_is_not_asked_as_one_server() -> None:
    assert findings.mode(findings.Facts({"redis_mode": "cluster"})).grade == "bad"
    assert findings.mode(findings.Facts({"server_mode": "cluster"}, kind="cluster")).grade == "good"


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
    guarded: guarding.Guarded, name: str, value: str, durable: bool, ready: bool
) -> None:
    with guarded.set_to(name, value), opening.connect(guarded.options("extender"), guarding.NAMES) as client:
        trouble = vetting.Vetting(client, durable=durable).trouble()
    assert (trouble is None) == ready
    if trouble is not None:
        assert name in trouble
        assert "CONFIG SET" in trouble


def test_what_was_seen_last_counts_while_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vetting, "EVERY", 0.0)
    monkeypatch.setattr(vetting, "_SOON", 0.0)
    server = servers.Server(tmp_path / "s", ["appendonly yes"])
    with connecting.connect(f"redis://{server.address}") as client:
        looked = vetting.Vetting(client, durable=True)
        server.kill()
        assert "not been looked at" in (looked.trouble() or "")
        server.start()
        assert looked.trouble() is None
        server.kill()
        assert looked.trouble() is None
        server.start()
        server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        assert "maxmemory-policy" in (looked.trouble() or "")
        server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert looked.trouble() is None
    server.kill()
