"""Counts in another form are built beside the live ones, while others append; then only they are used."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import redis

from app import settings
from app.domain import events, model, projections, schema
from app.plugins.elastic_quota import kinds as quota_kinds
from app.plugins.elastic_quota import quota_counts
from app.plugins.elastic_quota.sigs import namespace_counts, namespace_quota
from app.plugins.workload_policy import policy_model
from app.store import count_rebuild, errors, keys, schemas, stores
from app.store.health import doctor
from app.store.log import batches
from app.store.server import embedded
from tests.support import declared, gadgets
from tests.support.decisions import small_quotas
from tests.support.store import materialised, writers

POLICY = policy_model.WorkloadPolicy(uid="p", namespace="blue", name="web", topology_key="zone")


def pod(number: int) -> events.PodSeen:
    return events.PodSeen(
        pod=model.Pod(
            uid=f"u{number}",
            namespace="blue",
            name=f"p{number}",
            node="n",
            requests={"memory": 5 * 2**40 + number},
        )
    )


HISTORY: list[events.AnyEvent] = [
    events.NodeSeen(node=model.Node(name="n", uid="n", labels={"zone": "a"})),
    declared.observed(POLICY),
    gadgets.GADGETS.observed(gadgets.Gadget("g", "blue", "g", size=3)),
    *(pod(number) for number in range(3)),
]
KIB = 5 * 2**30


@pytest.fixture
def older(store_server: embedded.Server, cluster: str) -> Iterator[stores.Store]:
    """A store whose writers do not have gadgets; its history begins with a checkpoint."""
    with contextlib.closing(redis.Redis.from_url(store_server.url)) as client:
        schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    opened = stores.open_store(settings.Store(url=store_server.url), schema=declared.SCHEMA, cluster=cluster)
    writers.facts(opened.log, opened.follower.catch_up(), HISTORY[:4])
    opened.checkpoints.write(opened.follower.catch_up(), opened.log.read(3, limit=1)[0].at_ms)
    writers.facts(opened.log, opened.follower.catch_up(), HISTORY[4:])
    opened.follower.catch_up()
    yield opened
    opened.close()


def newer(store: stores.Store, url: str, known: schema.Schema = gadgets.SCHEMA) -> stores.Store:
    return stores.open_store(settings.Store(url=url), schema=known, cluster=store.keys.cluster)


def names(store: stores.Store, known: schema.Schema = gadgets.SCHEMA) -> keys.Keys:
    return keys.Keys(store.keys.cluster, known.forms)


def keys_of(store: stores.Store) -> set[str]:
    anything: Any = store.client
    found = anything.scan_iter(store.keys.prefix.replace("{", "[{]") + "counts*")
    return {key.decode().removeprefix(store.keys.prefix) for key in found}


def test_counts_of_another_form_are_not_used(older: stores.Store, store_server: embedded.Server) -> None:
    with pytest.raises(
        errors.SchemaMismatch,
        match=r"keeps counts:2,quota.6,sigsquota.4, .* keeps counts:2,quota.6,shares.1,sigsquota.4,sizes.1",
    ):
        newer(older, store_server.url)
    status = schemas.status(older.client, names(older))
    assert (status.ready, status.pending) == (
        False,
        ("counts:2,quota.6,sigsquota.4 to counts:2,quota.6,shares.1,sigsquota.4,sizes.1",),
    )
    former, present = (f"counts:{one.forms}" for one in (declared.SCHEMA, gadgets.SCHEMA))
    assert status.advice == str(errors.other_counts(former, present))
    options = settings.Store(url=store_server.url)
    found = {one.subject: one for one in doctor.examine(options, names(older))}
    assert (found["schema"].grade, found["counts"].grade) == ("good", "bad")
    assert found["counts"].found == f"{former}, needed {present}"
    assert "the same plugins everywhere" in found["counts"].run
    assert "counts" not in {one.subject for one in doctor.examine(options, older.keys)}


@pytest.mark.parametrize("ending", ["counts", "counts:", "counts:2:5f3a", "counts:2,", "other:2", "log", "7"])
def test_only_names_that_counts_have_are_those_of_other_forms(ending: str) -> None:
    own = declared.names("c")
    for forms in (schema.FIRST_FORMS, gadgets.SCHEMA.forms, "2,a-b.10"):
        assert keys.of_other_forms(own, keys.Keys("c", forms).counts)
    assert not keys.of_other_forms(own, own.counts)
    assert not keys.of_other_forms(own, f"{own.prefix}{ending}")
    assert not keys.of_other_forms(own, keys.Keys("d", gadgets.SCHEMA.forms).counts)


def test_the_new_counts_are_those_of_the_log(older: stores.Store, store_server: embedded.Server) -> None:
    before = materialised.counts(older)
    assert schemas.migrate(older.client, names(older), gadgets.SCHEMA).ready
    opened = newer(older, store_server.url)
    try:
        snapshot = opened.follower.catch_up()
        wanted = {
            "blue/web|zone=a": 3,
            "sizes|blue/g|n": 3 * (3 * KIB + 2),
            "shares|a": 3 * KIB + 2 + 3,
        }
        assert before == {"blue/web|zone=a": 3}
        assert materialised.counts(opened) == dict(snapshot.counts) == wanted
        # Both the checkpoint and the log were written by a version without gadgets.
        (header,) = opened.checkpoints.headers()
        read = opened.checkpoints.read(header, incarnation=snapshot.position.incarnation)
        assert dict(read.counts) == {"blue/web|zone=a": 1, "sizes|blue/g|n": 3 * KIB, "shares|a": KIB + 1}
        writers.facts(opened.log, snapshot, [pod(9)])
        assert materialised.counts(opened)["sizes|blue/g|n"] == 3 * (4 * KIB + 3)
    finally:
        opened.close()


FORMER = {1: {"_UNIT_BITS": 10, "LARGEST": 2**40}, 3: {"_UNIT_BITS": 10, "LARGEST": 2**35}}
"""Form of the counts of both families of quotas -> how they were counted: bytes in KiB."""


@pytest.mark.parametrize("form", FORMER)
@pytest.mark.parametrize(("asked", "kib"), [(2**60, 2**50), (5 * 2**30, 5 * 2**20)])
def test_a_store_that_counted_other_amounts_for_quotas_is_counted_again(
    store_server: embedded.Server,
    cluster: str,
    monkeypatch: pytest.MonkeyPatch,
    form: int,
    asked: int,
    kib: int,
) -> None:
    quotas = (quota_counts.COUNTER, namespace_counts.COUNTER)
    counters = [
        dataclasses.replace(one, form=form) if one in quotas else one for one in declared.SCHEMA.counters
    ]
    former = schema.Schema(declared.SCHEMA.kinds, counters)
    asking = msgspec.structs.replace(pod(1).pod, requests={"memory": asked, "cpu": 1})
    happened = [
        HISTORY[0],
        quota_kinds.QUOTAS.observed(small_quotas.quota("blue", namespace="blue", max={"memory": 2**70})),
        namespace_quota.KIND.observed(namespace_quota.NamespaceQuota("s", "blue", "s", max={"cpu": 9})),
        events.PodSeen(pod=asking),
    ]
    counts = "quota||blue|memory", "sigsquota|blue|memory", "sigsquota||memory"
    before = min(kib, FORMER[form]["LARGEST"])
    afterwards = min(16 * kib, quota_counts.LARGEST)
    with contextlib.closing(redis.Redis.from_url(store_server.url)) as client:
        names = keys.Keys(cluster, former.forms)
        schemas.migrate(client, names, former)
        url = settings.Store(url=store_server.url)
        for name, value in FORMER[form].items():
            monkeypatch.setattr(quota_counts, name, value)
        with contextlib.closing(stores.open_store(url, schema=former, cluster=cluster)) as opened:
            writers.facts(opened.log, opened.follower.catch_up(), happened)
            assert materialised.counts(opened).items() >= dict.fromkeys(counts, before).items()
        monkeypatch.undo()
        with pytest.raises(errors.SchemaMismatch, match=rf"quota\.{form}"):
            stores.open_store(url, schema=declared.SCHEMA, cluster=cluster)
        assert schemas.migrate(client, declared.names(cluster), declared.SCHEMA).ready
    with contextlib.closing(stores.open_store(url, schema=declared.SCHEMA, cluster=cluster)) as opened:
        snapshot = opened.follower.catch_up()
        assert materialised.counts(opened) == dict(snapshot.counts)
        assert dict(snapshot.counts).items() >= dict.fromkeys(counts, afterwards).items()


def test_a_writer_of_the_former_counts_is_rejected_afterwards(older: stores.Store) -> None:
    schemas.migrate(older.client, names(older), gadgets.SCHEMA)
    before = older.log.head()
    with pytest.raises(errors.SchemaMismatch, match=r"live counts are not those .* the same plugins"):
        older.log.append(batches.Batch(events=[pod(7)], increments={"blue/web|zone=a": 1}))
    assert older.log.head() == before


def test_what_is_appended_meanwhile_counts(
    older: stores.Store, store_server: embedded.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended = iter(range(20, 24))
    swapped = count_rebuild._Rebuild._swapped

    def late(self: count_rebuild._Rebuild) -> bool:
        # Another writer is quicker than the swap, several times.
        with contextlib.suppress(StopIteration):
            writers.facts(older.log, older.follower.catch_up(), [pod(next(appended))])
        return swapped(self)

    monkeypatch.setattr(count_rebuild._Rebuild, "_swapped", late)
    schemas.migrate(older.client, names(older), gadgets.SCHEMA)
    opened = newer(older, store_server.url)
    try:
        snapshot = opened.follower.catch_up()
        assert materialised.counts(opened) == dict(snapshot.counts)
        assert snapshot.counts["blue/web|zone=a"] == 7
    finally:
        opened.close()


def test_a_run_that_was_killed_leaves_a_key_that_expires(
    older: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: count_rebuild._Rebuild) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(count_rebuild._Rebuild, "_swapped", killed)
        with pytest.raises(KeyboardInterrupt):
            schemas.migrate(older.client, names(older), gadgets.SCHEMA)
    (left,) = keys_of(older) - {"counts:2,quota.6,sigsquota.4"}
    anything: Any = older.client
    assert 0 < anything.ttl(older.keys.prefix + left) <= 3600
    assert materialised.counts(older) == {"blue/web|zone=a": 3}
    assert schemas.migrate(older.client, names(older), gadgets.SCHEMA).ready
    assert anything.ttl(names(older).counts) == -1
    assert anything.ttl(older.keys.counts) > 3600


def test_there_and_back(older: stores.Store) -> None:
    before = materialised.counts(older)
    schemas.migrate(older.client, names(older), gadgets.SCHEMA)
    schemas.migrate(older.client, older.keys, declared.SCHEMA)
    assert materialised.counts(older) == before
    writers.facts(older.log, older.follower.catch_up(), [pod(8)])
    snapshot = older.follower.catch_up()
    assert materialised.counts(older) == dict(snapshot.counts) == {"blue/web|zone=a": 4}


def test_a_log_with_a_gap_is_not_counted(older: stores.Store) -> None:
    anything: Any = older.client
    anything.delete(older.keys.checkpoints)
    anything.xdel(older.keys.log, "2-0")
    with pytest.raises(errors.SchemaMismatch, match="does not continue from offset"):
        schemas.migrate(older.client, names(older), gadgets.SCHEMA)
    assert materialised.counts(older) == {"blue/web|zone=a": 3}


def test_an_empty_store_needs_no_counts(store_server: embedded.Server, cluster: str) -> None:
    with contextlib.closing(redis.Redis.from_url(store_server.url)) as client:
        schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
        assert schemas.migrate(client, keys.Keys(cluster, gadgets.SCHEMA.forms), gadgets.SCHEMA).ready
    opened = stores.open_store(settings.Store(url=store_server.url), schema=gadgets.SCHEMA, cluster=cluster)
    try:
        batch = [*HISTORY]
        projection = projections.Projection(opened.follower.catch_up())
        projection.apply_all(batch)
        opened.log.append(batches.Batch(events=batch, increments=projection.increments))
        assert materialised.counts(opened) == dict(projection.finish().counts)
        assert msgspec.json.encode(materialised.counts(opened))
    finally:
        opened.close()
