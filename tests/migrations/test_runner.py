"""Steps are taken in order, once, again after a kill, and never backwards."""

import hashlib
import re

import pytest

from app import settings
from app.store import errors, keys, schemas, stores
from app.store.health import checks
from migrations import runner
from migrations.schema import m0001_log
from tests.support import declared

REVISION = (1, "74f35aba07322b95f047de20c6d4dc73f3283056cb1422c470d0ac80d02488d7")
"""The revision of the functions, and the digest of their text."""


@pytest.fixture
def names(store: stores.Store) -> keys.Keys:
    """A second, empty cluster on the store's server."""
    return keys.Keys(f"{store.keys.cluster}-new")


def test_one_number_names_schema_functions_and_steps(store: stores.Store) -> None:
    assert runner.latest() == keys.SCHEMA
    assert runner.library_name(schemas.library()) == f"topolog_{keys.SCHEMA}"
    assert f"local SCHEMA = '{keys.SCHEMA}'\n" in schemas.library()
    assert schemas.status(store.client, store.keys).counts == store.keys.counts.removeprefix(
        store.keys.prefix
    )


def test_an_empty_store_reports_what_it_needs(store: stores.Store, names: keys.Keys) -> None:
    status = schemas.status(store.client, names)
    assert (status.schema, status.latest) == (0, runner.latest())
    assert status.pending == ("m0001 an empty log", "m0002 counts that name their label")
    assert not status.ready
    assert status.advice == "run `topolog migrate up`"
    assert not store.client.exists(names.meta)


def test_up_makes_a_store_that_opens(store: stores.Store, names: keys.Keys) -> None:
    status = schemas.migrate(store.client, names, declared.FIRST, incarnation="first")
    assert status.ready
    assert (status.pending, status.advice) == ((), "")
    meta = store.client.hgetall(names.meta)
    assert meta == {
        b"incarnation": b"first",
        b"offset": b"0",
        b"head": b"schema 2",
        b"counts": names.counts.encode(),
        b"schema": str(runner.latest()).encode(),
    }


def test_a_second_run_changes_nothing(store: stores.Store, names: keys.Keys) -> None:
    schemas.migrate(store.client, names, declared.FIRST, incarnation="first")
    before = store.client.hgetall(names.meta)
    schemas.migrate(store.client, names, declared.FIRST, incarnation="second")
    assert store.client.hgetall(names.meta) == before


def test_a_run_that_was_killed_after_any_write_is_resumed(store: stores.Store, names: keys.Keys) -> None:
    m0001_log.create(store.client, names.prefix, "killed")  # ... and the number was never written
    assert schemas.migrate(store.client, names, declared.FIRST, incarnation="again").ready
    assert store.client.hget(names.meta, "incarnation") == b"killed"


def test_a_store_of_a_newer_version_is_left_alone(store: stores.Store, names: keys.Keys) -> None:
    store.client.hset(names.meta, "schema", str(runner.latest() + 1))
    status = schemas.status(store.client, names)
    assert "use the newer Topolog" in status.advice
    assert not status.ready
    with pytest.raises(errors.SchemaMismatch, match="supports up to"):
        schemas.migrate(store.client, names, declared.FIRST)
    assert store.client.hgetall(names.meta) == {b"schema": str(runner.latest() + 1).encode()}


def test_a_schema_that_is_not_a_number_is_refused_with_the_command_to_run(
    store: stores.Store, names: keys.Keys
) -> None:
    store.client.hset(names.meta, "schema", "two")
    advice = f"'two', which is not a number: .* run HSET {re.escape(names.meta)} schema {keys.SCHEMA}"
    with pytest.raises(errors.SchemaMismatch, match=advice):
        schemas.status(store.client, names)
    with pytest.raises(errors.SchemaMismatch, match=advice):
        schemas.migrate(store.client, names, declared.FIRST)
    with pytest.raises(errors.SchemaMismatch, match="the store has schema 0"):
        schemas.check(store.client, names)


@pytest.mark.parametrize(("found", "todo"), [(0, "topolog migrate up"), (99, "newer Topolog")])
def test_a_store_of_another_schema_is_not_opened(
    store: stores.Store, names: keys.Keys, found: int, todo: str
) -> None:
    if found:
        store.client.hset(names.meta, mapping={"schema": found, "incarnation": "x"})
    path = store.client.connection_pool.connection_kwargs["path"]
    with pytest.raises(errors.SchemaMismatch, match=todo):
        stores.open_store(
            settings.Store(url=f"unix://{path}"),
            schema=declared.FIRST,
            cluster=names.cluster,
        )


def test_another_text_of_the_functions_is_noticed(store: stores.Store) -> None:
    client, prefix = store.client, store.keys.prefix
    assert runner.status(client, prefix, schemas.library()).library == "current"
    assert runner.status(client, prefix, schemas.library() + "-- newer").library == "outdated"


def test_a_changed_text_of_the_functions_has_another_revision() -> None:
    text = schemas.library().encode()
    assert (runner.revision(text), hashlib.sha256(text).hexdigest()) == REVISION, (
        "raise the revision in topolog.lua, then record it here with the digest of the text"
    )


def test_newer_functions_are_not_replaced_by_older_ones(store: stores.Store) -> None:
    client, own = store.client, schemas.library()
    first = f"-- Revision {REVISION[0]} "
    newer, former = own.replace(first, f"-- Revision {REVISION[0] + 1} "), own.replace(first, "-- ")
    try:
        runner.load(client, newer)
        assert schemas.migrate(client, store.keys, declared.SCHEMA).ready
        assert schemas.status(client, store.keys).library == "newer"
        assert runner.loaded(client, newer) == "current"
        (finding, _) = checks.functions("newer", schema=keys.SCHEMA, needed=keys.SCHEMA)
        assert (finding.grade, finding.found) == ("good", "newer")
        client.function_load(former, replace=True)
        assert schemas.status(client, store.keys).library == "outdated"
        assert schemas.migrate(client, store.keys, declared.SCHEMA).library == "current"
    finally:
        client.function_load(own, replace=True)
