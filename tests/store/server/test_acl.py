"""The users of the roles: each can do its work and nothing else, checked with a real server."""

import pathlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import pytest
from click import testing
from redis import exceptions

from app import cli, settings
from app.domain import events, model
from app.domain.audit import findings
from app.store import audit_reports, errors, raw_access, schemas, stores
from app.store.log import batches, incarnations, logs, tail_repair
from app.store.server import acl, connections
from tests.project import reference_pages
from tests.support import declared
from tests.support.extender import api_worlds
from tests.support.store import (
    crash_safe_server,
    deployments,
    guarded_server,
    materialised,
    servers,
    writers,
)
from workers.compactor import compactors


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[guarded_server.Guarded]:
    made = guarded_server.Guarded(tmp_path_factory.mktemp("guarded"))
    yield made
    made.close()


def test_each_function_is_in_the_table_with_its_commands() -> None:
    text = schemas.library()
    bodies = dict(re.findall(r"^local function (\w+)\(.*?\)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL))

    def commands(function: str) -> set[str]:
        body = bodies[function]
        called = set(re.findall(r"(?:redis\.call|write)\('(\w+)'", body))
        helpers = {name for name in bodies if name != function and re.search(rf"\b{name}\(", body)}
        return {one.lower() for one in called}.union(*map(commands, helpers))

    registered = re.findall(r"register_function\('topolog_\w+', (\w+)\)|callback = (\w+)", text)
    named = {one or other for one, other in registered}
    assert {name: commands(name) for name in named} == {
        name: set(known) for name, known in acl.FUNCTIONS.items()
    }


def _follow(store: stores.Store) -> None:
    """The calls of each process that keeps a snapshot at the head of the log."""
    store.follower.catch_up()
    log = store.log
    log.reader().wait_for_entries(0, milliseconds=50)
    assert log.read(0, limit=1)[0].offset == 1
    assert log.report_loss(log.seen)
    assert log.state().incarnation == log.incarnation
    assert store.checkpoints.headers() is not None
    assert store.histories.at(log.head().offset).offset
    store.follower.stop()


def _append(store: stores.Store) -> batches.Appended:
    seen = writers.seen(f"p{time.time_ns()}")
    return store.log.append(batches.Batch(events=[seen], marks={"rv:x": "1"}))


_REWOUND = events.StoreRewound(
    from_incarnation="former", lost_from=1, lost_to=2, reason="r", by="b", relisting=()
)


def _begin_again(store: stores.Store) -> None:
    log, found = store.log, store.log.state()
    log.report_loss(incarnations.Watermark(log.incarnation, found.head + 5))
    begun = incarnations.new((found.incarnation,))
    guard = batches.Guard(epoch="7", writer="w")
    assert log.rewind(_REWOUND, begun, found=found.incarnation, guard=guard)
    log.follow(begun)


def _record(store: stores.Store) -> None:
    _append(store)
    _follow(store)
    _begin_again(store)
    assert store.log.resume_versions() | materialised.counts(store) | materialised.versions(store)


def _control(store: stores.Store) -> None:
    _append(store)
    _follow(store)
    store.decisions.latest(limit=1)


def _extend(store: stores.Store) -> None:
    _control(store)
    store.start()
    made = api_worlds.world(store)
    listed = (events.Relisted(kind, since="", until="1", reason="start") for kind in declared.SCHEMA.names)
    made.append(events.ShadowSet(model.Shadow("strict")), *listed, api_worlds.pod_seen("asked"))
    assert api_worlds.decide(made, api_worlds.pod("asked"))


def _view(store: stores.Store) -> None:
    _follow(store)
    assert store.client.xrevrange(store.keys.decisions, count=1)
    assert store.histories.at(store.follower.snapshot.offset)
    compared = api_worlds.shadows_of(store, api_worlds.plugins_of_the_seeds())
    compared.step()
    assert compared.reports()["strict"].examined == 1


def _compact(store: stores.Store) -> None:
    _follow(store)
    turned = compactors.Compactor(store, settings.Compaction(events=1, keep=0, checkpoints=1))
    turned.run_once()
    assert store.checkpoints.headers()
    snapshot, at_ms = store.follower.dated()
    assert at_ms is not None
    # Another compactor has written the same checkpoint.
    assert store.checkpoints.write(snapshot, at_ms) in store.checkpoints.headers()
    full = mock.patch.object(store.checkpoints, "_settled", side_effect=errors.away("full"))
    with full, pytest.raises(errors.StoreAway):
        store.checkpoints.write(snapshot, at_ms)


def _audit(store: stores.Store) -> None:
    _append(store)
    _follow(store)
    raw_reader = raw_access.RawReader(store.client, store.keys)
    for held in (0, 2 * raw_access.WHOLE):
        assert raw_reader.view(0, held=held).last is not None
    assert raw_reader.lines(0, 1)[1]
    assert raw_reader.checkpoints() == {}
    kept = audit_reports.Reports(store.client, store.keys)
    kept.write(findings.Report(store.log.incarnation, 1, 1, "auditor", 1.0))
    assert kept.latest() is not None


def _adopt(store: stores.Store) -> None:
    seen = tail_repair.inspect(store.client, store.keys)
    tail_repair.repair(store.client, store.keys, seen)
    assert store.log.state().incarnation
    _append(store)


WORK: Mapping[str, Callable[[stores.Store], None]] = {
    "recorder": _record,
    "controller": _control,
    "extender": _extend,
    "auditor": _audit,
    "viewer": _view,
    "operator": _adopt,
    "compactor": _compact,
}
"""Role -> the calls of its process; the compactor is last, because it trims the log."""


def test_a_role_can_do_its_work_without_a_refusal_by_the_server(guarded: guarded_server.Guarded) -> None:
    for role in (*WORK, "migrator", "doctor"):
        guarded.admin.acl_log_reset()
        if role in WORK:
            store = stores.open_store(
                guarded.options(role),
                schema=declared.SCHEMA,
                cluster=guarded_server.CLUSTER,
            )
            WORK[role](store)
            assert store.durability.problem() is None
            store.close()
        elif role == "migrator":
            with schemas.connect(guarded.options(role), guarded_server.NAMES) as client:
                assert schemas.migrate(client, guarded_server.NAMES, declared.SCHEMA).ready
        else:
            assert guarded_server.examined(guarded, role)
        # CONFIG GET is asked for, and done without.
        assert {str(entry["object"]) for entry in guarded.admin.acl_log()} <= {"config|get"}, role
    assert {*WORK, "migrator", "doctor"} == {role.name for role in acl.ROLES}


@pytest.mark.parametrize("role", [role.name for role in acl.ROLES])
def test_a_role_can_do_nothing_else(guarded: guarded_server.Guarded, role: str) -> None:
    with schemas.connect(guarded.options(role), guarded_server.NAMES) as opened:
        client: Any = opened
        for command in (
            ("FLUSHALL",),
            ("CONFIG", "SET", "save", ""),
            ("EVAL", "return 1", "0"),
            ("KEYS", "*"),
        ):
            with pytest.raises(exceptions.NoPermissionError):
                client.execute_command(*command)
        with pytest.raises(errors.Denied, match="topolog doctor users"), connections.translated():
            client.hgetall(guarded_server.OTHER.meta)
        if role != "migrator":
            with pytest.raises(exceptions.NoPermissionError):
                client.function_load(schemas.library(), replace=True)
        log = logs.Log(opened, guarded_server.NAMES, "")
        if role != "recorder":
            with pytest.raises(errors.Denied):
                log.rewind(_REWOUND, "x", found="", guard=logs.NO_GUARD)
        if role != "compactor":
            with pytest.raises(errors.Denied):
                log.trim(1, 1, reader_timeout=1.0)
        if role in ("compactor", "viewer", "migrator", "doctor"):
            with pytest.raises(errors.Denied):
                log.append(batches.Batch(events=[writers.seen("p")]))
        log.close()


def test_the_access_list_in_deploy_is_that_of_the_code() -> None:
    path = reference_pages.ROOT / "deploy" / "store" / "users.acl"
    assert path.read_text() == acl.access_list("default"), "run `make docs`"
    shown = testing.CliRunner().invoke(cli.topolog, ["doctor", "users"], env={"TOPOLOG_CLUSTER": "east"})
    assert shown.output == acl.access_list("east")


def test_a_server_starts_with_the_users_of_a_second_cluster_in_its_list(tmp_path: pathlib.Path) -> None:
    """As the page of the store adds them."""
    hashes = {role.name: "a" * 64 for role in acl.ROLES}
    for first in (acl.access_list("east").replace("#PASSWORD", f"#{'a' * 64}"), acl.filled("east", hashes)):
        second = acl.filled("west", hashes).splitlines(keepends=True)
        added = [line for line in second if line.startswith("user topolog-west-")]
        assert len(added) == len(acl.ROLES)
        path = tmp_path / "users.acl"
        path.write_text(first + "".join(added))
        servers.Server(tmp_path / "server", [f"aclfile {path}"]).kill()


@pytest.mark.parametrize(
    "binary", sorted({"", servers.tls_binary()}), ids=lambda binary: "tls" if binary else "usual"
)
def test_a_server_with_the_list_loads_every_append(tmp_path: pathlib.Path, binary: str) -> None:
    """Redis loads the transactions of its append-only file with the rights of the default user."""
    users = guarded_server.installed(tmp_path)
    server = servers.Server(tmp_path / "s", [*users, "appendonly yes"], binary=binary)
    url = f"redis://admin:any@{server.address}"
    try:
        store = deployments.opened(url, guarded_server.CLUSTER)
        appended = deployments.append(store, "a", "b")
        crash_safe_server.await_written(url)
        server.kill()
        server.start()
        servers.eventually(store.client.ping, "the file is loaded")
        assert store.log.head().offset == appended.last
        store.close()
    finally:
        server.kill()


def test_a_list_has_the_users_of_replicas_and_sentinels_that_have_passwords() -> None:
    hashes = {role.name: "a" * 64 for role in acl.ROLES}
    alone = acl.filled("east", hashes)
    assert "topolog-replica" not in alone
    assert "topolog-sentinel" not in alone
    both = acl.filled("east", hashes | dict.fromkeys(acl.SERVERS, "b" * 64))
    unfilled = acl.access_list("east").splitlines()
    assert both.removeprefix(alone).splitlines() == [
        line.replace("#PASSWORD", f"#{'b' * 64}") for line in unfilled[-2:]
    ]
    with pytest.raises(errors.BadHashes, match="for: replica"):
        acl.filled("east", hashes | {"replica": ""})


def test_clients_without_a_password_are_refused(guarded: guarded_server.Guarded) -> None:
    for url in (
        f"redis://{guarded.server.address}",
        f"redis://topolog-prod-recorder:x@{guarded.server.address}",
    ):
        with pytest.raises(errors.StoreError, match="credentials"):
            stores.open_store(
                settings.Store(url=url),
                schema=declared.SCHEMA,
                cluster=guarded_server.CLUSTER,
            )
