"""A log that another program wrote to is made appendable again, and keeps all its own entries."""

from collections.abc import Callable

import pytest

from app.domain import events
from app.store import errors, keys, stores
from app.store.log import batches, tail_repair
from app.store.server import embedded
from tests.support import commands
from tests.support.store import writers


def appended(store: stores.Store, count: int = 1) -> int:
    """The offset of the last event appended."""
    last = 0
    for number in range(count):
        event = events.RelistRequested(kind=f"k{number}", reason="a test")
        last = store.log.append(batches.Batch(events=(event,))).last
    return last


def mended(store: stores.Store) -> tail_repair.Tail:
    seen = tail_repair.inspect(store.client, store.keys)
    tail_repair.repair(store.client, store.keys, seen)
    assert not tail_repair.inspect(store.client, store.keys).wrong
    return seen


def garbage(store: stores.Store) -> str:
    """An entry by hand; its id."""
    identity = store.client.xadd(store.keys.log, {"note": "by hand"})
    assert isinstance(identity, bytes)
    return identity.decode()


def garbage_removed(store: stores.Store) -> None:
    store.client.xdel(store.keys.log, garbage(store))


def garbage_between(store: stores.Store) -> None:
    head = store.log.head().offset
    store.client.xadd(store.keys.log, {"note": "by hand"}, id=f"{head}-1")
    store.client.xadd(store.keys.log, {"note": "by hand"}, id=f"{head + 1}-0")


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("plant", [garbage, garbage_removed, garbage_between])
def test_foreign_entries_are_removed_and_appends_continue(
    store: stores.Store, plant: Callable[[stores.Store], object], before: int
) -> None:
    appended(store, before)
    entries = store.client.xrange(store.keys.log)
    plant(store)
    with pytest.raises(errors.StoreError, match="topolog doctor store --repair-tail"):
        appended(store)
    assert mended(store).taken == ()
    assert store.client.xrange(store.keys.log) == entries
    assert appended(store, 2) == before + 2
    assert [entry.offset for entry in store.log.read(0)] == list(range(1, before + 3))


def test_an_entry_that_continues_the_log_is_kept(store: stores.Store) -> None:
    """As after the head in meta was lowered, or an append was cut short."""
    appended(store, 4)
    entries = store.client.xrange(store.keys.log)
    at_ms = store.log.time_of(2)
    store.client.hset(store.keys.meta, mapping={keys.HEAD: "2", "at": str(at_ms)})
    removed = garbage(store)
    seen = mended(store)
    assert ([one.identity for one in seen.taken], [one.identity for one in seen.foreign]) == (
        ["3-0", "4-0"],
        [removed],
    )
    assert store.client.xrange(store.keys.log) == entries
    assert appended(store) == 5
    assert store.follower.catch_up().offset == 5


def test_an_entry_of_a_later_version_is_kept(store: stores.Store) -> None:
    appended(store, 2)
    at_ms = store.log.time_of(2)
    payload = b'{"v":1,"type":"Tomorrow"}'
    store.client.xadd(store.keys.log, {"t": str(at_ms), "e": payload, "w": ""}, id="3-0")
    entries = store.client.xrange(store.keys.log)
    removed = garbage(store)
    seen = mended(store)
    assert ([one.identity for one in seen.taken], [one.identity for one in seen.foreign]) == (
        ["3-0"],
        [removed],
    )
    assert store.client.xrange(store.keys.log) == entries
    assert store.log.head().offset == 3


def test_a_tail_that_changed_since_it_was_shown_is_not_repaired(store: stores.Store) -> None:
    appended(store)
    garbage(store)
    seen = tail_repair.inspect(store.client, store.keys)
    second = garbage(store)
    with pytest.raises(errors.StoreError, match="changed since it was shown"):
        tail_repair.repair(store.client, store.keys, seen)
    assert tail_repair.inspect(store.client, store.keys).foreign[-1].identity == second


def test_an_append_fails_before_it_writes_if_the_versions_are_of_another_type(store: stores.Store) -> None:
    appended(store)
    store.client.delete(store.keys.versions)
    store.client.set(store.keys.versions, "x")
    entries = store.client.xrange(store.keys.log)
    with pytest.raises(errors.StoreError, match="another type"):
        appended(store)
    assert store.client.xrange(store.keys.log) == entries
    store.client.delete(store.keys.versions)
    assert appended(store) == 2


def test_the_doctor_shows_a_foreign_tail_and_asks_before_it_repairs(
    store: stores.Store, store_server: embedded.Server, cluster: str
) -> None:
    environ = {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster}

    def doctor(*options: str) -> tuple[int, str]:
        done = commands.called("doctor", "store", *options, **environ)
        return done.returncode, done.stdout + done.stderr

    writers.facts(store.log, store.follower.catch_up(), [writers.seen("u1")])
    assert doctor("--repair-tail")[0] == 0
    identity = garbage(store)
    code, text = doctor()
    assert (code, "topolog doctor store --repair-tail" in text) == (1, True)
    assert f"the last id is {identity}, the head 1" in text
    code, text = doctor("--repair-tail")
    assert (code, "nothing was changed" in text) == (1, True)
    assert f"remove  {identity}  note=by hand" in text
    assert store.client.xlen(store.keys.log) == 2
    code, text = doctor("--repair-tail", "--yes")
    assert (code, "the log ends at 1 and is appendable" in text) == (0, True)
    assert appended(store) == 2
    assert store.log.read(0)[0].event == writers.seen("u1")
