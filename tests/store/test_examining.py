"""The doctor: a fault planted in a real server is found, with a reason and a command."""

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from click import testing
from redis import exceptions

from app import cli, settings
from app.domain import events
from app.store import (
    connecting,
    errors,
    examining,
    findings,
    incarnations,
    keeping,
    keys,
    logs,
    opening,
    permissions,
    vetting,
    views,
)
from migrations import running
from tests.project import generating
from tests.store import servers, writing
from workers import compacting

CLUSTER = "prod"
NAMES = keys.Keys(CLUSTER)
OTHER = keys.Keys("other")


def password(user: str) -> str:
    return f"secret-of-{user}"


def installed(directory: Path) -> list[str]:
    """The lines that an operator adds for the access list, passwords filled in."""
    lines = []
    for line in permissions.access_list(CLUSTER).splitlines():
        digest = hashlib.sha256(password(line.split()[1]).encode()).hexdigest()
        lines.append(line.replace("#PASSWORD", f"#{digest}"))
    # For the tests themselves.
    lines.append("user admin on nopass ~* &* +@all")
    path = directory / "users.acl"
    path.write_text("\n".join(lines) + "\n")
    return [f"aclfile {path}"]


class Guarded:
    """A server as the documentation says, and a replica."""

    def __init__(self, directory: Path) -> None:
        users = installed(directory)
        common = [*users, "appendonly yes", "maxmemory 500mb", "maxmemory-policy noeviction"]
        common += ["masteruser topolog-replica", f"masterauth {password('topolog-replica')}"]
        self.server = servers.Server(directory / "m", [*common, "min-replicas-max-lag 3"])
        self.replica = servers.Server(directory / "r", [*common, f"replicaof 127.0.0.1 {self.server.port}"])
        self.admin = redis.Redis(port=self.server.port, username="admin", password="any")
        servers.eventually(lambda: self.admin.info()["connected_slaves"] == 1, "the replica is there")
        self.admin.config_set("min-replicas-to-write", 1)
        servers.eventually(lambda: self.admin.info()["min_slaves_good_slaves"] == 1, "it is well")
        with opening.connect(self.options("migrator"), NAMES) as client:
            opening.migrate(client, NAMES)
        # Another cluster on the same server.
        opening.migrate(self.admin, OTHER)

    def options(self, role: str) -> settings.Store:
        user = next(one for one in permissions.ROLES if one.name == role).user(CLUSTER)
        return settings.Store(
            url=f"redis://{user}:{password(user)}@{self.server.address}", socket_timeout=1.0
        )

    def run(self, *command: str) -> None:
        untyped: Any = self.admin
        untyped.execute_command(*command)

    @contextlib.contextmanager
    def set_to(self, name: str, value: str) -> Iterator[None]:
        """The server runs with a setting."""
        before: Any = self.admin.config_get(name)
        self.admin.config_set(name, value)
        try:
            yield
        finally:
            self.admin.config_set(name, next(iter(before.values())))

    def close(self) -> None:
        self.admin.close()
        self.replica.kill()
        self.server.kill()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.close()


def examined(guarded: Guarded, role: str = "doctor") -> dict[str, findings.Finding]:
    return {one.subject: one for one in examining.examine(guarded.options(role), NAMES)}


# -- findings ------------------------------------------------------------------------------


def test_a_sound_server_has_nothing_wrong(guarded: Guarded) -> None:
    found = examined(guarded)
    wrong = {one.subject for one in found.values() if one.grade != "good"}
    # What cannot be had here: TLS, and perhaps a patched release.
    assert wrong <= {"transport", "version"}
    assert {f"user {role.user(CLUSTER)}" for role in permissions.ROLES} <= set(found)
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
    guarded: Guarded, name: str, value: str, subject: str, grade: str, loses: bool
) -> None:
    with guarded.set_to(name, value):
        found = examined(guarded)[subject]
    assert (found.grade, found.loses) == (grade, loses)
    assert found.why
    assert "CONFIG SET" in found.run


def test_functions_that_are_not_this_versions_are_found(guarded: Guarded) -> None:
    guarded.admin.function_load(opening.library() + "\n-- changed", replace=True)
    assert examined(guarded)["functions"].found == "outdated"
    guarded.admin.function_delete("topolog")
    try:
        assert examined(guarded)["functions"].found == "missing"
    finally:
        guarded.admin.function_load(opening.library(), replace=True)
    guarded.admin.hset(NAMES.meta, "schema", "99")
    try:
        assert examined(guarded)["schema"].grade == "bad"
    finally:
        guarded.admin.hset(NAMES.meta, "schema", "1")
        opening.migrate(guarded.admin, NAMES)


@pytest.mark.parametrize(
    ("rule", "grade", "said"),
    [
        ("+flushall", "poor", "may flushall"),
        ("+@all", "poor", "may flushall"),
        ("~*", "poor", "may hget another-key"),
        ("+fcall", "poor", "may fcall topolog_rewind"),
        ("-xread", "bad", "may not xread streams"),
        ("-xadd", "bad", "may not xadd"),
        ("resetkeys", "bad", "may not"),
    ],
)
def test_a_user_who_may_too_much_or_too_little_is_found(
    guarded: Guarded, rule: str, grade: str, said: str
) -> None:
    user = f"topolog-{CLUSTER}-extender"
    guarded.run("ACL", "SETUSER", user, rule)
    try:
        found = examined(guarded)[f"user {user}"]
        assert found.grade == grade
        assert said in found.found
        # What it says to run mends it.
        guarded.run(*found.run.replace(f"SETUSER {user}", f"SETUSER {user} resetkeys").split())
        assert examined(guarded)[f"user {user}"].grade == "good"
    finally:
        guarded.run("ACL", "LOAD")


def test_an_open_door_is_found(guarded: Guarded) -> None:
    guarded.run("ACL", "SETUSER", "default", "on", "nopass", "+@all", "~*")
    try:
        assert examined(guarded)["user default"].grade == "bad"
        guarded.run("ACL", "SETUSER", "default", "resetpass", ">x")
        assert examined(guarded)["user default"].grade == "poor"
    finally:
        guarded.run("ACL", "LOAD")


def test_what_a_user_may_not_see_is_said(guarded: Guarded) -> None:
    found = examined(guarded, "recorder")
    unseen = {one.subject for one in found.values() if one.grade == "unsure"}
    assert unseen == {"configuration", "users", "functions", "clock"} - (
        {"clock"} if found["clock"].grade == "good" else set()
    )
    assert found["appendonly"].grade == "good"


def test_a_replica_is_no_store(guarded: Guarded) -> None:
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


# -- what each role may do -----------------------------------------------------------------


def test_each_function_is_in_the_table_with_its_commands() -> None:
    text = opening.library()
    bodies = dict(re.findall(r"^local function (\w+)\(.*?\)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL))

    def commands(function: str) -> set[str]:
        body = bodies[function]
        called = set(re.findall(r"(?:redis\.call|write)\('(\w+)'", body))
        helpers = {name for name in bodies if name != function and re.search(rf"\b{name}\(", body)}
        return {one.lower() for one in called}.union(*map(commands, helpers))

    registered = re.findall(r"register_function\('topolog_\w+', (\w+)\)|callback = (\w+)", text)
    named = {one or other for one, other in registered}
    assert {name: commands(name) for name in named} == {
        name: set(known) for name, known in permissions.FUNCTIONS.items()
    }


def _follow(store: opening.Store) -> None:
    """What everybody does who keeps a snapshot at the head of the log."""
    store.follower.catch_up()
    log = store.log
    log.wait(0, milliseconds=50)
    assert log.read(0, limit=1)[0].offset == 1
    assert log.doubt(log.seen)
    assert log.standing().incarnation == log.incarnation
    assert store.checkpoints.headers() is not None
    assert store.histories.at(log.head().offset).offset
    store.follower.stop()


def _append(store: opening.Store) -> logs.Appended:
    seen = writing.seen(f"p{time.time_ns()}")
    return store.log.append(logs.Batch(events=[seen], marks={"rv:x": "1"}))


_REWOUND = events.StoreRewound(
    from_incarnation="former", lost_from=1, lost_to=2, reason="r", by="b", relisting=()
)


def _begin_anew(store: opening.Store) -> None:
    log, found = store.log, store.log.standing()
    log.doubt(incarnations.Known(log.incarnation, found.head + 5))
    begun = incarnations.new((found.incarnation,))
    guard = logs.Guard(epoch="7", writer="w")
    assert log.rewind(_REWOUND, begun, found=found.incarnation, guard=guard, schema=running.latest())
    log.follow(begun)


def _record(store: opening.Store) -> None:
    _append(store)
    _follow(store)
    _begin_anew(store)
    assert store.log.marks() | store.log.counts() | store.log.versions()


def _control(store: opening.Store) -> None:
    _append(store)
    _follow(store)
    store.decisions.latest(limit=1)


def _extend(store: opening.Store) -> None:
    _control(store)
    store.client.xadd(store.keys.decisions, {"d": b"x"}, maxlen=10)


def _compact(store: opening.Store) -> None:
    _follow(store)
    turned = compacting.Compactor(store, settings.Compaction(events=1, keep=0, checkpoints=1))
    turned.turn()
    assert store.checkpoints.headers()


def _audit(store: opening.Store) -> None:
    _append(store)
    _follow(store)
    views.rebuild(store.client, store.keys, store.log)


def _adopt(store: opening.Store) -> None:
    assert store.log.standing().incarnation
    _append(store)


WORK: Mapping[str, Callable[[opening.Store], None]] = {
    "recorder": _record,
    "controller": _control,
    "extender": _extend,
    "auditor": _audit,
    "operator": _adopt,
    "compactor": _compact,
}
"""Role -> what its process asks of the store; the compactor comes last, for it trims the log."""


def test_a_role_can_do_its_work_and_the_server_has_nothing_to_refuse(guarded: Guarded) -> None:
    for role in (*WORK, "migrator", "doctor"):
        guarded.admin.acl_log_reset()
        if role in WORK:
            store = opening.open_store(guarded.options(role), cluster=CLUSTER)
            WORK[role](store)
            assert store.vetting.trouble() is None
            store.close()
        elif role == "migrator":
            with opening.connect(guarded.options(role), NAMES) as client:
                assert opening.migrate(client, NAMES).ready
        else:
            assert examined(guarded, role)
        # CONFIG GET is asked for, and done without.
        assert {str(entry["object"]) for entry in guarded.admin.acl_log()} <= {"config|get"}, role
    assert {*WORK, "migrator", "doctor"} == {role.name for role in permissions.ROLES}


@pytest.mark.parametrize("role", [role.name for role in permissions.ROLES])
def test_a_role_can_do_nothing_else(guarded: Guarded, role: str) -> None:
    with opening.connect(guarded.options(role), NAMES) as opened:
        client: Any = opened
        for command in (
            ("FLUSHALL",),
            ("CONFIG", "SET", "save", ""),
            ("EVAL", "return 1", "0"),
            ("KEYS", "*"),
        ):
            with pytest.raises(exceptions.NoPermissionError):
                client.execute_command(*command)
        with pytest.raises(errors.Denied, match="topolog doctor users"), connecting.translated():
            client.hgetall(OTHER.meta)
        if role != "migrator":
            with pytest.raises(exceptions.NoPermissionError):
                client.function_load(opening.library(), replace=True)
        log = logs.Log(opened, NAMES, "")
        if role != "recorder":
            with pytest.raises(errors.Denied):
                log.rewind(_REWOUND, "x", found="", guard=logs.NO_GUARD, schema=1)
        if role != "compactor":
            with pytest.raises(errors.Denied):
                log.trim(1, 1, reader_timeout=1.0)
        if role in ("compactor", "migrator", "doctor"):
            with pytest.raises(errors.Denied):
                log.append(logs.Batch(events=[writing.seen("p")]))
        log.close()


def test_the_access_list_in_deploy_is_that_of_the_code() -> None:
    path = generating.ROOT / "deploy" / "store" / "users.acl"
    assert path.read_text() == permissions.access_list("default"), "run `make docs`"
    shown = testing.CliRunner().invoke(cli.topolog, ["doctor", "users"], env={"TOPOLOG_CLUSTER": "east"})
    assert shown.output == permissions.access_list("east")


def test_without_a_password_nobody_gets_in(guarded: Guarded) -> None:
    for url in (
        f"redis://{guarded.server.address}",
        f"redis://topolog-prod-recorder:x@{guarded.server.address}",
    ):
        with pytest.raises(errors.StoreError, match="credentials"):
            opening.open_store(settings.Store(url=url), cluster=CLUSTER)


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
    guarded: Guarded, name: str, value: str, durable: bool, ready: bool
) -> None:
    with guarded.set_to(name, value), opening.connect(guarded.options("extender"), NAMES) as client:
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
