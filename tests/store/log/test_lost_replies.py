"""Replies of the functions to direct calls: a Log only sends arguments that it holds to be valid."""

import itertools
from collections.abc import Mapping

import pytest

from app.store import keys, stores
from app.store.log import batches
from tests.support.store import writers

_sessions = itertools.count()


def asked(
    store: stores.Store,
    *,
    incarnation: str | None = None,
    seen: int = 0,
    at_ms: str = "",
    ceilings: Mapping[str, int] | None = None,
) -> list[object]:
    """The reply to an empty batch under this guard, from a new writer."""
    tops = ceilings or {}
    position = [store.log.incarnation if incarnation is None else incarnation, seen, at_ms]
    writer = ["1", "", "other", ""]
    sizes = [0, 0, 0, len(tops), 0, 0]
    given = [*position, *writer, *sizes, *itertools.chain.from_iterable(tops.items())]
    return called(store, "append", *given)


def called(store: stores.Store, name: str, *given: object) -> list[object]:
    """The reply of a function to these arguments, from a new session."""
    names = store.keys
    touched = {
        "append": [names.versions, names.counts, names.session(f"direct-{next(_sessions)}")],
        "rewind": [names.versions, names.counts],
        "trim": [names.checkpoints, names.readers],
    }
    places = [names.readers] if name == "attend" else [names.log, names.meta, *touched.get(name, [])]
    reply = store.client.fcall(keys.function(name), len(places), *places, *map(str, given))
    assert isinstance(reply, list)
    return reply


def asking(store: stores.Store, incarnation: str) -> dict[str, list[object]]:
    """The reply of each function to a call for that incarnation."""
    return {
        "append": asked(store, incarnation=incarnation),
        "read": called(store, "read", incarnation, 0, "", 10),
        "doubt": called(store, "doubt", incarnation, 1, "", 0),
        "trim": called(store, "trim", incarnation, 1, 1, 1000),
        "rewind": called(store, "rewind", incarnation, "new", "former", "", "", "{}", "store"),
    }


def fill(store: stores.Store, number: int) -> list[int]:
    """Append one by one; the milliseconds of each."""
    return [store.log.append(batches.Batch(events=[writers.seen(f"u{at}")])).at_ms for at in range(number)]


def test_a_call_for_another_incarnation_returns_the_present_one(store: stores.Store) -> None:
    *_, last = fill(store, 3)
    found = store.log.incarnation.encode()
    for seen, known in ((0, ""), (3, str(last))):
        assert asked(store, incarnation="another", seen=seen, at_ms=known) == [b"REWOUND", found, 3]
    assert store.log.state().lost is None


def test_every_function_returns_the_incarnation_and_the_head_that_it_found(store: stores.Store) -> None:
    fill(store, 3)
    found = store.log.incarnation.encode()
    for name, reply in asking(store, "another").items():
        assert reply == ([b"CHANGED", found] if name == "rewind" else [b"REWOUND", found, 3]), name


def test_an_emptied_store_has_no_incarnation_and_no_head(store: stores.Store) -> None:
    store.client.delete(store.keys.meta)
    for name, reply in asking(store, "another").items():
        assert reply == ([b"CHANGED", b""] if name == "rewind" else [b"REWOUND", b"", 0]), name


@pytest.mark.parametrize("schema", [b"7", None])
def test_every_function_returns_the_schema_that_it_found(store: stores.Store, schema: bytes | None) -> None:
    store.client.hdel(store.keys.meta, "schema")
    if schema:
        store.client.hset(store.keys.meta, "schema", schema)
    for name, reply in asking(store, store.log.incarnation).items():
        assert reply == [b"SCHEMA", schema or b"0"], name


def test_a_new_incarnation_is_refused_to_a_lower_epoch(store: stores.Store) -> None:
    store.client.hset(store.keys.meta, mapping={"epoch": "10", "writer": "other"})
    for epoch, writer in (("9", "other"), ("10", "one")):
        given = store.log.incarnation, "new", "former", epoch, writer, "{}", "store"
        assert called(store, "rewind", *given) == [b"FENCED", b"10", b"other"]


@pytest.mark.parametrize("seen", [1, 2, 3])
def test_an_entry_that_was_written_at_another_time_is_another_entry(store: stores.Store, seen: int) -> None:
    fill(store, 3)
    found = store.log.incarnation
    assert called(store, "read", found, seen, "1", 10) == [b"REWOUND", found.encode(), 3]
    assert asked(store, seen=seen, at_ms="1") == [b"REWOUND", found.encode(), 3]
    # From now on every append is refused.
    assert asked(store) == [b"REWOUND", found.encode(), 3]
    assert store.client.hget(store.keys.meta, "lost") == f"{found} {seen} {seen - 1}".encode()


def test_what_was_noted_of_a_loss_is_widened_and_never_narrowed(store: stores.Store) -> None:
    fill(store, 3)
    found = store.log.incarnation
    for note, kept in ((f"{found} 9 2", f"{found} 9 1"), (f"{found} 9 0", f"{found} 9 0")):
        store.client.hset(store.keys.meta, "lost", note)
        assert asked(store, seen=2, at_ms="1") == [b"REWOUND", found.encode(), 3]
        assert store.client.hget(store.keys.meta, "lost") == kept.encode()


@pytest.mark.parametrize(("field", "value"), [("schema", "1"), ("counts", "others")])
def test_an_empty_store_of_another_schema_is_refused(store: stores.Store, field: str, value: str) -> None:
    store.client.hset(store.keys.meta, field, value)
    schema = store.client.hget(store.keys.meta, "schema")
    assert asked(store) == [b"SCHEMA", schema]


def test_each_count_has_its_own_ceiling(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=(), increments={"a": 1, "b": 5, "c": 3}))
    assert asked(store, ceilings={"a": 1, "b": 5, "c": 3})[:3] == [b"OK", 1, 0]
    assert asked(store, ceilings={"a": 9, "b": 4, "c": 9}) == [b"CEILING", b"b", 5, 4]
    assert asked(store, ceilings={"a": 9, "b": 9, "c": 2}) == [b"CEILING", b"c", 3, 2]


def test_a_reader_whose_entry_was_trimmed_starts_from_a_checkpoint(store: stores.Store) -> None:
    _, _, third, _, last = fill(store, 5)
    store.client.xtrim(store.keys.log, minid="4-0", approximate=False)
    found = store.log.incarnation
    assert called(store, "read", found, 2, "1", 10) == [b"TRIMMED", 4]
    # Nothing is missing, but nothing shows either that it has read the third entry of this log.
    for known in (third, "1"):
        assert called(store, "read", found, 3, known, 10) == [b"TRIMMED", 4]
    reply = called(store, "read", found, 3, "", 10)
    assert (reply[0], reply[1], reply[2], len(reply)) == (b"OK", 5, last, 7)


def test_a_missing_entry_is_reported(store: stores.Store) -> None:
    _, second, *_ = fill(store, 4)
    store.client.xtrim(store.keys.log, minid="2-0", approximate=False)
    store.client.xdel(store.keys.log, "3-0", "4-0")
    found = store.log.incarnation
    for known in ("", second):
        assert called(store, "read", found, 2, known, 10) == [b"GAP", 3]
    assert called(store, "read", found, 2, "1", 10) == [b"REWOUND", found.encode(), 4]


def test_the_missing_entry_of_a_reader_is_reported(store: stores.Store) -> None:
    _, second, *_ = fill(store, 4)
    store.client.xdel(store.keys.log, "2-0")
    assert called(store, "read", store.log.incarnation, 2, second, 10) == [b"GAP", 2]


def test_all_times_are_those_of_the_server(store: stores.Store) -> None:
    def now() -> int:
        seconds, microseconds = store.client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def dated(name: str, *given: object) -> int:
        before, reply, after = now(), called(store, name, *given), now()
        at_ms = reply[-1]
        assert isinstance(at_ms, int)
        assert before <= at_ms <= after
        return at_ms

    attended = dated("attend", "reader", 7)
    assert store.client.hget(store.keys.readers, "reader") == f"7 {attended}".encode()
    begun = dated("rewind", store.log.incarnation, "new", "former", "5", "one", "{}", "store")
    meta = store.client.hgetall(store.keys.meta)
    assert (meta[b"at"], meta[b"recorded"]) == (str(begun).encode(),) * 2


def test_a_reader_that_leaves_is_forgotten_and_no_other(store: stores.Store) -> None:
    for reader in ("one", "other"):
        called(store, "attend", reader, 7)
    called(store, "attend", "one", "")
    assert set(store.client.hkeys(store.keys.readers)) == {b"other"}
