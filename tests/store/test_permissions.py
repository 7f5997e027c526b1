"""The users of the roles: each can do its work, and nothing else, by the word of a real server."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from click import testing
from redis import exceptions

from app import cli, settings
from app.domain import consistency, events
from app.store import (
    connecting,
    errors,
    incarnations,
    inspecting,
    logs,
    mending,
    opening,
    permissions,
    reports,
)
from tests.project import generating
from tests.store import guarding, writing
from workers import compacting


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[guarding.Guarded]:
    made = guarding.Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.close()


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
    log.tail().come(0, milliseconds=50)
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
    assert log.rewind(_REWOUND, begun, found=found.incarnation, guard=guard)
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
    inspector = inspecting.Inspector(store.client, store.keys)
    for held in (0, 2 * inspecting.WHOLE):
        assert inspector.look(0, held=held).last is not None
    assert inspector.lines(0, 1)[1]
    assert inspector.checkpoints() == {}
    kept = reports.Reports(store.client, store.keys)
    kept.write(consistency.Report(store.log.incarnation, 1, 1, "auditor", 1.0))
    assert kept.latest() is not None


def _adopt(store: opening.Store) -> None:
    seen = mending.look(store.client, store.keys)
    mending.mend(store.client, store.keys, seen)
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


def test_a_role_can_do_its_work_and_the_server_has_nothing_to_refuse(guarded: guarding.Guarded) -> None:
    for role in (*WORK, "migrator", "doctor"):
        guarded.admin.acl_log_reset()
        if role in WORK:
            store = opening.open_store(guarded.options(role), cluster=guarding.CLUSTER)
            WORK[role](store)
            assert store.vetting.trouble() is None
            store.close()
        elif role == "migrator":
            with opening.connect(guarded.options(role), guarding.NAMES) as client:
                assert opening.migrate(client, guarding.NAMES).ready
        else:
            assert guarding.examined(guarded, role)
        # CONFIG GET is asked for, and done without.
        assert {str(entry["object"]) for entry in guarded.admin.acl_log()} <= {"config|get"}, role
    assert {*WORK, "migrator", "doctor"} == {role.name for role in permissions.ROLES}


@pytest.mark.parametrize("role", [role.name for role in permissions.ROLES])
def test_a_role_can_do_nothing_else(guarded: guarding.Guarded, role: str) -> None:
    with opening.connect(guarded.options(role), guarding.NAMES) as opened:
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
            client.hgetall(guarding.OTHER.meta)
        if role != "migrator":
            with pytest.raises(exceptions.NoPermissionError):
                client.function_load(opening.library(), replace=True)
        log = logs.Log(opened, guarding.NAMES, "")
        if role != "recorder":
            with pytest.raises(errors.Denied):
                log.rewind(_REWOUND, "x", found="", guard=logs.NO_GUARD)
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


def test_without_a_password_nobody_gets_in(guarded: guarding.Guarded) -> None:
    for url in (
        f"redis://{guarded.server.address}",
        f"redis://topolog-prod-recorder:x@{guarded.server.address}",
    ):
        with pytest.raises(errors.StoreError, match="credentials"):
            opening.open_store(settings.Store(url=url), cluster=guarding.CLUSTER)
