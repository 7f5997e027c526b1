"""What the function append refuses, asked directly: a Log asks it only what it believes to be true itself."""

import itertools
from collections.abc import Mapping

import pytest

from app.store import keys, logs, opening
from tests.store import writing

_sessions = itertools.count()


def asked(
    store: opening.Store,
    *,
    incarnation: str | None = None,
    seen: int = 0,
    at_ms: str = "",
    ceilings: Mapping[str, int] | None = None,
) -> list[object]:
    """The reply to a batch of nothing under this guard, from a writer of its own."""
    names, tops = store.keys, ceilings or {}
    standing = [store.log.incarnation if incarnation is None else incarnation, seen, at_ms]
    writer = ["1", "", "somebody", ""]
    sizes = [0, 0, 0, len(tops), 0, 0]
    session = names.session(f"direct-{next(_sessions)}")
    touched = [names.log, names.meta, names.versions, names.counts, session]
    given = [*standing, *writer, *sizes, *itertools.chain.from_iterable(tops.items())]
    reply = store.client.fcall(keys.function("append"), len(touched), *touched, *map(str, given))
    assert isinstance(reply, list)
    return reply


def fill(store: opening.Store, number: int) -> int:
    """Append one by one; milliseconds of the last."""
    for at in range(number):
        appended = store.log.append(logs.Batch(events=[writing.seen(f"u{at}")]))
    return appended.at_ms


def test_who_believes_in_another_incarnation_is_told_of_the_one_there_is(store: opening.Store) -> None:
    at_ms = fill(store, 3)
    found = store.log.incarnation.encode()
    for seen, known in ((0, ""), (3, str(at_ms))):
        assert asked(store, incarnation="another", seen=seen, at_ms=known) == [b"REWOUND", found, 3]
    assert store.log.standing().lost is None


def test_an_emptied_store_has_no_incarnation_and_no_head(store: opening.Store) -> None:
    store.client.delete(store.keys.meta)
    assert asked(store) == [b"REWOUND", b"", 0]


@pytest.mark.parametrize("seen", [1, 2, 3])
def test_an_entry_that_was_written_at_another_time_is_another_entry(store: opening.Store, seen: int) -> None:
    fill(store, 3)
    found = store.log.incarnation
    assert asked(store, seen=seen, at_ms="1") == [b"REWOUND", found.encode(), 3]
    # From now on nobody writes, whatever he knows.
    assert asked(store) == [b"REWOUND", found.encode(), 3]
    assert store.client.hget(store.keys.meta, "lost") == f"{found} {seen} {seen - 1}".encode()


def test_what_was_noted_of_a_loss_is_widened_and_never_narrowed(store: opening.Store) -> None:
    fill(store, 3)
    found = store.log.incarnation
    for note, told in ((f"{found} 9 2", f"{found} 9 1"), (f"{found} 9 0", f"{found} 9 0")):
        store.client.hset(store.keys.meta, "lost", note)
        assert asked(store, seen=2, at_ms="1") == [b"REWOUND", found.encode(), 3]
        assert store.client.hget(store.keys.meta, "lost") == told.encode()


@pytest.mark.parametrize(("field", "value"), [("schema", "1"), ("counts", "others")])
def test_an_empty_store_of_another_schema_is_none_of_ours(
    store: opening.Store, field: str, value: str
) -> None:
    store.client.hset(store.keys.meta, field, value)
    schema = store.client.hget(store.keys.meta, "schema")
    assert asked(store) == [b"SCHEMA", schema]


def test_each_count_has_its_own_ceiling(store: opening.Store) -> None:
    store.log.append(logs.Batch(events=(), increments={"a": 1, "b": 5, "c": 3}))
    assert asked(store, ceilings={"a": 1, "b": 5, "c": 3})[:3] == [b"OK", 1, 0]
    assert asked(store, ceilings={"a": 9, "b": 4, "c": 9}) == [b"CEILING", b"b", 5, 4]
    assert asked(store, ceilings={"a": 9, "b": 9, "c": 2}) == [b"CEILING", b"c", 3, 2]
