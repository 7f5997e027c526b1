"""Reads of the past by plain commands: the answers of the function, at a part of its price."""

import functools
from collections.abc import Callable
from typing import NoReturn

import pytest

from app.store import errors, keys, stores
from app.store.log import batches, readers
from app.store.state import followers, histories
from tests.support import declared
from tests.support.store import writers

LAST = 6


def healthy(_: stores.Store) -> None:
    """Nothing happens."""


def hole(store: stores.Store) -> None:
    store.client.xdel(store.keys.log, "4-0")


def trimmed(store: stores.Store) -> None:
    store.client.xtrim(store.keys.log, minid="5-0", approximate=False)


def lost_tail(store: stores.Store) -> None:
    store.client.hset(store.keys.meta, keys.HEAD, "3")


def missing_tail(store: stores.Store) -> None:
    store.client.xdel(store.keys.log, "5-0", "6-0")


def reported_loss(store: stores.Store) -> None:
    store.client.hset(store.keys.meta, "lost", f"{store.log.incarnation} 6 5")


def other_incarnation(store: stores.Store) -> None:
    store.client.hset(store.keys.meta, "incarnation", "another")


def flushed(store: stores.Store) -> None:
    store.client.delete(store.keys.log, store.keys.meta)


def other_schema(store: stores.Store) -> None:
    store.client.hset(store.keys.meta, "schema", "9")


def overwritten_time(store: stores.Store) -> None:
    store.client.hset(store.keys.meta, "at", "text")


HAPPENED = (
    *(healthy, hole, trimmed, lost_tail, missing_tail, reported_loss, other_incarnation),
    *(flushed, other_schema, overwritten_time),
)


def filled(store: stores.Store) -> readers.LogReader:
    store.log.append(batches.Batch(events=[writers.seen(f"u{number}") for number in range(LAST)]))
    return store.log.reader()


def outcome(read: Callable[[], readers.Read]) -> object:
    try:
        return read()
    except errors.StoreError as error:
        return type(error), str(error)


@pytest.mark.parametrize("happened", HAPPENED)
def test_a_read_of_the_past_answers_as_the_function(
    store: stores.Store, happened: Callable[[stores.Store], None]
) -> None:
    reader = filled(store)
    happened(store)
    for after in range(LAST + 2):
        for limit in (1, 3, LAST, readers.CHUNK):
            expected = outcome(functools.partial(reader.read, after, limit=limit))
            found = outcome(functools.partial(reader.read_past, after, limit=limit))
            assert found == expected, (after, limit)
    reader.close()


def test_what_plain_commands_cannot_prove_is_read_by_the_function(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an entry that is appended between the two commands."""
    reader = filled(store)
    plain = reader._plain
    monkeypatch.setattr(reader, "_plain", lambda after, limit: plain(after + 1, limit))
    assert [entry.offset for entry in reader.read_past(LAST - 1).entries] == [LAST]
    assert reader.read_past(LAST - 2, limit=1) == reader.read(LAST - 2, limit=1)
    reader.close()


def test_the_past_is_read_without_a_function(store: stores.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store).close()
    past = histories.Histories(store.log, followers.Follower(store.log, schema=declared.SCHEMA))
    monkeypatch.setattr(readers.LogReader, "_request", refused)
    assert [entry.offset for entry in past.entries(1, LAST)] == list(range(1, LAST + 1))
    assert past.at(LAST - 1).offset == LAST - 1
    at_ms = past.appended_ms(LAST)
    assert at_ms is not None
    assert past.offset_at(at_ms) == LAST


def refused(*_: object) -> NoReturn:
    raise AssertionError("a function was called")
