"""From schema 1 to 2: counts that name their label are built beside the others, and take their place."""

import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import redis

from app.store import errors, keys, migration_fold, schemas, stores
from app.store.log import batches, logs
from app.store.server import connections, embedded
from migrations import folds, runner
from tests.support import declared
from tests.support.store import materialised, past_stores


def test_a_store_of_the_first_schema_is_what_it_was(
    client: redis.Redis, names: keys.Keys, opened: Callable[[], stores.Store]
) -> None:
    before = past_stores.contents(client, names)
    with pytest.raises(errors.SchemaMismatch, match="run `topolog migrate up`"):
        opened()
    assert schemas.status(client, names).counts == "counts"
    status = schemas.migrate(client, names, declared.FIRST)
    assert (status.ready, status.schema, status.counts) == (True, 2, "counts:2")
    after = past_stores.contents(client, names)
    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == {"meta", "counts:2"}
    store = opened()
    # The log begins behind its checkpoint, which is of a form that does not name labels either.
    assert store.log.oldest() == past_stores.CHECKPOINT - 10
    assert past_stores.lawful(store).offset == past_stores.HEAD
    assert (
        materialised.counts(store)["blue/both|zone=a"] == materialised.counts(store)["blue/web|zone=a"] == 6
    )
    assert "blue/both|rack=r1" in store.histories.at(past_stores.CHECKPOINT).counts
    assert store.log.resume_versions() == {"rv:nodes": "10", "rv:pods": "19", "rv:workloadpolicies": "11"}
    released = store.histories.part(
        past_stores.CHECKPOINT + 1, past_stores.HEAD, kind="PlacementReleased", limit=9
    ).entries
    assert [entry.event.cause for entry in released if hasattr(entry.event, "cause")] == [
        "superseded",
        "gone",
    ]
    # The old counts are kept for inspection, and expire.
    assert 0 < client.ttl(f"{names.prefix}counts") <= 86_400
    assert client.ttl(names.counts) == -1
    store.log.append(batches.Batch(events=[past_stores.pod(0)], increments={}))
    assert store.log.head().offset == past_stores.HEAD + 1


def test_a_second_run_changes_nothing(client: redis.Redis, names: keys.Keys) -> None:
    schemas.migrate(client, names, declared.FIRST)
    before = past_stores.contents(client, names)
    assert schemas.migrate(client, names, declared.FIRST).ready
    assert past_stores.contents(client, names) == before


class Killed(BaseException):
    """Nothing of the run is left."""


class Boundary:
    """Ends a run before a command that it sends, or after an answer that it gets."""

    def __init__(self, number: int) -> None:
        self.passed = 0
        self._number = number

    def __enter__(self) -> "Boundary":
        kind: Any = redis.connection.AbstractConnection
        send, receive = kind.send_packed_command, kind.read_response

        def sent(*arguments: object, **options: object) -> None:
            self._pass()
            send(*arguments, **options)

        def received(*arguments: object, **options: object) -> object:
            reply: object = receive(*arguments, **options)
            self._pass()
            return reply

        self._patches: list[Any] = [
            mock.patch.object(kind, "send_packed_command", sent),
            mock.patch.object(kind, "read_response", received),
        ]
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()

    def _pass(self) -> None:
        self.passed += 1
        if self.passed == self._number:
            raise Killed


def test_a_run_that_is_killed_anywhere_is_resumed(
    client: redis.Redis, store_server: embedded.Server, names: keys.Keys
) -> None:
    schemas.migrate(client, names, declared.FIRST)
    undisturbed = past_stores.contents(client, names)
    number = 0
    while True:
        number += 1
        disturbed = keys.Keys(f"{names.cluster}-{number}")
        past_stores.restore(client, disturbed)
        mortal = connections.connect(store_server.url)
        try:
            with Boundary(number):
                schemas.migrate(mortal, disturbed, declared.FIRST)
            mortal.close()
            break
        except Killed:
            mortal.close()
        assert schemas.status(client, disturbed).schema in (1, 2)
        unfinished = list(client.scan_iter(f"{disturbed.counts}:*".replace("{", "[{]"), count=1000))
        assert all(client.ttl(key) > 0 for key in unfinished)
        assert schemas.migrate(client, disturbed, declared.FIRST).ready
        found = past_stores.contents(client, disturbed)
        assert renamed(found, disturbed) == renamed(undisturbed, names), number
    assert number > 50


def renamed(found: dict[str, object], names: keys.Keys) -> str:
    return repr(sorted(found.items())).replace(names.prefix, "")


def test_two_runs_at_the_same_time_do_no_harm(
    client: redis.Redis, store_server: embedded.Server, names: keys.Keys, opened: Callable[[], stores.Store]
) -> None:
    clients = [connections.connect(store_server.url) for _ in range(4)]
    ready = threading.Barrier(len(clients), timeout=30)
    outcomes: list[str] = []

    def migrate(one: redis.Redis) -> None:
        ready.wait()
        try:
            schemas.migrate(one, names, declared.FIRST)
            outcomes.append("ready")
        except errors.SchemaMismatch as mismatch:
            outcomes.append(str(mismatch))

    threads = [threading.Thread(target=migrate, args=(one,)) for one in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in clients:
        one.close()
    assert "ready" in outcomes
    assert all(one == "ready" or "another run" in one for one in outcomes), outcomes
    assert schemas.migrate(client, names, declared.FIRST).ready
    assert past_stores.lawful(opened()).offset == past_stores.HEAD


def test_the_functions_of_the_first_schema_change_nothing_any_more(
    client: redis.Redis, names: keys.Keys
) -> None:
    writer = past_stores.Writer(client, names)
    schemas.migrate(client, names, declared.FIRST)
    # They return: a migration of another cluster of this server, by the version before.
    client.function_load(past_stores.FUNCTIONS, replace=True)
    before = past_stores.contents(client, names)
    incarnation, counts = "0197f0c0a000-1a2b3c4d", f"{names.prefix}counts"
    for batch in ([past_stores.pod(1)], []):
        with pytest.raises(redis.ResponseError, match="compare nil"):
            writer.append(*batch, marks={"rv:pods": "1"})
    for function, where, arguments in (
        (
            "topolog_rewind",
            [names.log, names.meta, names.versions, counts],
            [incarnation, "x", "y", "", "", "1", "{}", "s"],
        ),
        ("topolog_doubt", [names.log, names.meta], [incarnation, "99", ""]),
        (
            "topolog_trim",
            [names.log, names.meta, names.checkpoints, names.readers],
            [incarnation, "47", "47", "0"],
        ),
    ):
        with pytest.raises(redis.ResponseError):
            client.fcall(function, len(where), *where, *arguments)
    with pytest.raises(redis.ResponseError):
        client.fcall_ro("topolog_read", 2, names.log, names.meta, incarnation, "0", "", "10")
    assert past_stores.contents(client, names) == before


@pytest.mark.parametrize(("schema", "todo"), [("1", "topolog migrate up"), ("3", "newer Topolog")])
def test_these_functions_change_nothing_in_a_store_of_another_schema(
    client: redis.Redis, names: keys.Keys, schema: str, todo: str
) -> None:
    runner.load(client, schemas.library())
    client.hset(names.meta, "schema", schema)
    before = past_stores.contents(client, names)
    log = logs.Log(client, names, "0197f0c0a000-1a2b3c4d")
    rewound = past_stores.rewound()
    for call in (
        lambda: log.append(batches.Batch(events=[past_stores.pod(1)])),
        lambda: log.append(batches.Batch(events=(), marks={"rv:pods": "1"})),
        lambda: log.read(past_stores.CHECKPOINT),
        lambda: log.report_loss(log.seen),
        lambda: log.trim(past_stores.CHECKPOINT, past_stores.CHECKPOINT, reader_timeout=1.0),
        lambda: log.rewind(rewound, "x", found=log.incarnation, guard=logs.NO_GUARD),
    ):
        with pytest.raises(errors.SchemaMismatch, match=todo):
            call()
    assert past_stores.contents(client, names) == before
    log.close()


def test_a_writer_whose_counts_are_not_the_live_ones_is_refused(
    client: redis.Redis, names: keys.Keys
) -> None:
    schemas.migrate(client, names, declared.FIRST)
    client.hset(names.meta, "counts", f"{names.prefix}counts:3")
    before = past_stores.contents(client, names)
    log = logs.Log(client, names, "0197f0c0a000-1a2b3c4d")
    with pytest.raises(errors.SchemaMismatch):
        log.append(batches.Batch(events=[past_stores.pod(1)]))
    assert past_stores.contents(client, names) == before
    log.close()


def test_counts_that_differ_from_the_log_are_not_migrated(client: redis.Redis, names: keys.Keys) -> None:
    client.hincrby(f"{names.prefix}counts", "blue/web|a", 1)
    before = past_stores.contents(client, names)
    with pytest.raises(errors.SchemaMismatch, match=r"blue/web\|a: 7, by the log 6"):
        schemas.migrate(client, names, declared.FIRST)
    assert past_stores.contents(client, names) == before
    client.hincrby(f"{names.prefix}counts", "blue/web|a", -1)
    assert schemas.migrate(client, names, declared.FIRST).ready


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda client, names: client.delete(names.checkpoints), "does not go on from offset 0"),
        (lambda client, names: client.xdel(names.log, "50-0"), "does not go on from offset 47"),
        (lambda client, names: client.hset(names.meta, "lost", "x 60"), "has lost events"),
    ],
)
def test_a_log_that_is_not_whole_is_not_migrated(
    client: redis.Redis, names: keys.Keys, damage: Callable[[redis.Redis, keys.Keys], object], message: str
) -> None:
    damage(client, names)
    before = past_stores.contents(client, names)
    with pytest.raises(errors.SchemaMismatch, match=message):
        schemas.migrate(client, names, declared.FIRST)
    assert past_stores.contents(client, names) == before


def test_another_incarnation_in_the_middle_is_noticed(client: redis.Redis, names: keys.Keys) -> None:
    def begin(holds: folds.Holds) -> folds.Fold:
        client.hset(names.meta, "incarnation", "0297f0c0a000-1a2b3c4d")
        return migration_fold.begin(client, names, declared.FIRST, holds)

    with pytest.raises(runner.MigrationRefused, match="another incarnation"):
        runner.up(client, names.prefix, runner.MigrationContext(incarnation="", begin=begin))
    assert client.hget(names.meta, "schema") == b"1"


def test_a_store_that_lost_everything_begins_again_with_this_schema(
    client: redis.Redis, names: keys.Keys, opened: Callable[[], stores.Store]
) -> None:
    schemas.migrate(client, names, declared.FIRST)
    log = opened().log
    client.delete(*(f"{names.prefix}{name}" for name in past_stores.contents(client, names)))
    assert log.rewind(past_stores.rewound(), "0297f0c0a000-1a2b3c4d", found="", guard=logs.NO_GUARD)
    assert schemas.status(client, names).ready
    assert past_stores.lawful(opened()).offset == 1
    with pytest.raises(redis.ResponseError):
        past_stores.Writer(client, names).append(past_stores.pod(1))
