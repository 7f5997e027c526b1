"""Events that are appended while the counts are migrated: each is counted, or its writer is refused."""

import itertools
import threading
from collections.abc import Callable
from unittest import mock

import pytest
import redis

from app.plugins.workload_policy import policy_model
from app.store import keys, migration_fold, schemas, stores
from app.store.server import connections, embedded
from migrations import folds, runner
from migrations.schema import m0002_counts
from tests.support import declared
from tests.support.store import past_stores


def test_writers_of_the_first_schema_go_on_until_the_new_counts_are_in_use(
    client: redis.Redis, store_server: embedded.Server, names: keys.Keys, opened: Callable[[], stores.Store]
) -> None:
    ready, refused = threading.Barrier(2, timeout=30), threading.Event()
    theirs = connections.connect(store_server.url)
    writer = past_stores.Writer(theirs, names)
    writer.follow(past_stores.snapshot_of(client, names))

    def write() -> None:
        for number in range(1_000_000):
            if number == 20:
                ready.wait()
            try:
                writer.append(past_stores.pod(number))
            except redis.ResponseError:
                refused.set()
                return

    thread = threading.Thread(target=write)
    thread.start()
    ready.wait()
    schemas.migrate(client, names, declared.FIRST)
    assert refused.wait(30)
    thread.join()
    store = opened()
    assert past_stores.lawful(store).offset == past_stores.HEAD + len(writer.accepted)
    assert [entry.event for entry in store.log.read(past_stores.HEAD, limit=10**6)] == writer.accepted[:]
    assert len(writer.accepted) >= 20
    theirs.close()


def test_a_log_that_never_pauses_is_not_migrated_and_one_that_does_is(
    client: redis.Redis, names: keys.Keys, opened: Callable[[], stores.Store]
) -> None:
    writer = past_stores.Writer(client, names)
    writer.follow(past_stores.snapshot_of(client, names))
    caught_up = m0002_counts._Renewal._catch_up
    left = [10_000]

    def busy(self: m0002_counts._Renewal) -> None:
        caught_up(self)
        if left[0]:
            left[0] -= 1
            writer.append(past_stores.pod(len(writer.accepted)))

    def begin(holds: folds.Holds) -> folds.Fold:
        return migration_fold.begin(client, names, declared.FIRST, holds)

    context = runner.MigrationContext(incarnation="", begin=begin, patience=0.05)
    with mock.patch.object(m0002_counts._Renewal, "_catch_up", busy):
        with pytest.raises(runner.MigrationRefused, match="never paused"):
            runner.up(client, names.prefix, context)
        assert client.hget(names.meta, "schema") == b"1"
        left[0] = 5
        assert schemas.migrate(client, names, declared.FIRST).ready
    assert past_stores.lawful(opened()).offset == past_stores.HEAD + len(writer.accepted)


def test_what_is_appended_between_two_stages_counts(
    client: redis.Redis, names: keys.Keys, opened: Callable[[], stores.Store]
) -> None:
    writer = past_stores.Writer(client, names)
    writer.follow(past_stores.snapshot_of(client, names))
    caught_up = m0002_counts._Renewal._catch_up
    labels = itertools.cycle(("rack", "zone"))

    def append() -> None:
        # Every count of the one label goes, and those of the other come.
        policy = policy_model.WorkloadPolicy(
            uid="policy-both", namespace="blue", name="both", topology_key=next(labels)
        )
        writer.append(declared.observed(policy))

    def late(self: m0002_counts._Renewal) -> None:
        caught_up(self)
        if len(writer.accepted) % 4:
            append()

    context = runner.MigrationContext(
        incarnation="",
        begin=lambda holds: migration_fold.begin(client, names, declared.FIRST, holds),
    )
    runner.load(client, schemas.library())
    taken = []
    with mock.patch.object(m0002_counts._Renewal, "_catch_up", late):
        for name, take in runner.stages(client, names.prefix, context):
            if name != "m0002 number":
                append()
            take()
            taken.append(name)
    assert taken == [f"m0002 {name}" for name in ("fold", "build", "compare", "swap", "number")]
    assert past_stores.lawful(opened()).offset == past_stores.HEAD + len(writer.accepted)
    assert len(writer.accepted) >= 8


def test_an_append_in_the_middle_of_the_swap_undoes_it(
    client: redis.Redis, names: keys.Keys, opened: Callable[[], stores.Store]
) -> None:
    writer = past_stores.Writer(client, names)
    writer.follow(past_stores.snapshot_of(client, names))
    fields = m0002_counts._Renewal._meta_fields
    found: list[object] = []

    def late(self: m0002_counts._Renewal) -> dict[str, str]:
        # Between the read of the head and the transaction.
        if len(found) < 3:
            writer.append(past_stores.pod(len(found) + 1))
        found.append(client.hget(names.meta, "schema"))
        return fields(self)

    with mock.patch.object(m0002_counts._Renewal, "_meta_fields", late):
        schemas.migrate(client, names, declared.FIRST)
    assert found == [b"1"] * 4
    assert past_stores.lawful(opened()).offset == past_stores.HEAD + 3
