"""A follower notices that the log lost entries, has a hole, or holds what it cannot read."""

import contextlib
from typing import Any

import pytest

from app.domain import projections
from app.store import errors, keys, schemas, stores
from app.store.log import batches, codecs, readers
from app.store.state import histories
from tests.support import declared
from tests.support.store import lost_tails, writers


def test_a_follower_notices_a_flush(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    store.follower.catch_up()
    store.client.delete(store.keys.log, store.keys.meta)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()
    # An operator may begin a later history: it is followed, from its start.
    schemas.migrate(store.client, store.keys, declared.SCHEMA)
    assert store.follower.catch_up().offset == 0


def test_a_follower_notices_a_cut_tail(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=[writers.seen("u1"), writers.seen("u2")]))
    store.follower.catch_up()
    lost_tails.cut(store, 1)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()


@pytest.mark.parametrize("grown", [1, 3])
@pytest.mark.parametrize("adopted", [False, True])
def test_a_follower_notices_a_tail_that_was_cut_and_has_grown_again(
    store: stores.Store, grown: int, adopted: bool
) -> None:
    base = store.follower.catch_up()
    appended = store.log.append(batches.Batch(events=[writers.seen("u1")]))
    if adopted:
        store.follower.apply_own_append(projections.project(base, writers.seen("u1")), appended)
    else:
        store.follower.catch_up()
    lost_tails.grow_again(store, grown, after=appended)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()


def test_a_follower_of_a_lost_entry_starts_from_a_checkpoint_once_the_log_is_trimmed(
    store: stores.Store,
) -> None:
    """Nothing is left that its entry could be compared with: it would fold onto a pod that was lost."""
    appended = store.log.append(batches.Batch(events=[writers.seen("u1")]))
    store.follower.catch_up()
    lost_tails.grow_again(store, 3, after=appended)
    with contextlib.closing(lost_tails.another(store)) as other:
        other.follower.catch_up()
        at_ms = other.histories.appended_ms(2)
        assert at_ms is not None
        other.checkpoints.write(other.histories.at(2), at_ms)
        store.client.xtrim(store.keys.log, minid="2-0", approximate=False)
    found = store.follower.catch_up()
    assert sorted(found.pods) == ["other-0", "other-1", "other-2"]


def test_a_loss_is_reported_although_the_log_holds_a_later_entry_that_is_known(store: stores.Store) -> None:
    appended = store.log.append(batches.Batch(events=[writers.seen("u1")]))
    store.follower.catch_up()
    lost_tails.grow_again(store, 3, after=appended)
    # As a recorder does that becomes the leader.
    store.log.note(store.log.state().end)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()
    lost = store.log.state().lost
    assert lost is not None
    assert (lost.offset, lost.kept) == (1, 0)


@pytest.mark.parametrize("grown", [0, 1, 2, 3])
def test_a_lost_own_append_is_noticed_at_the_next_read_even_if_it_was_never_read(
    store: stores.Store, grown: int
) -> None:
    """Even if others have appended since, until the log was as long again, or longer."""
    first = [writers.seen(f"u{at}") for at in range(5)]
    store.log.append(batches.Batch(events=first[:3]))
    store.follower.catch_up()
    store.log.append(batches.Batch(events=first[3:]))
    kept: Any = store.client.xrange(store.keys.log, max="3-0")
    store.client.delete(store.keys.log)
    other = codecs.encode(writers.seen("other"))
    kept += [(b"%d-0" % offset, {b"t": b"7", b"e": other, b"w": b""}) for offset in range(4, 4 + grown)]
    for identity, fields in kept:
        store.client.xadd(store.keys.log, fields, id=identity)
    store.client.hset(store.keys.meta, mapping={keys.HEAD: 3 + grown, "at": kept[-1][1][b"t"]})
    with pytest.raises(errors.Rewound, match="offset 5 was in the log"):
        store.follower.catch_up()
    lost = store.log.state().lost
    assert lost is not None
    assert (lost.offset, lost.kept) == (5, 3)


def test_a_follower_notices_a_hole(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=[writers.seen(f"u{i}") for i in range(5)]))
    store.client.xdel(store.keys.log, "3-0")
    with pytest.raises(errors.Gap):
        store.follower.catch_up()


@pytest.mark.parametrize(
    "hole", [1, readers.CHUNK, readers.CHUNK + 1, 2 * readers.CHUNK, 2 * readers.CHUNK + 50]
)
def test_a_follower_notices_a_hole_anywhere_in_a_long_log(store: stores.Store, hole: int) -> None:
    for start in range(0, 2 * readers.CHUNK + 100, 100):
        store.log.append(batches.Batch(events=[writers.seen(f"u{start + i}") for i in range(100)]))
    store.client.xdel(store.keys.log, f"{hole}-0")
    with pytest.raises((errors.Gap, errors.Trimmed)):
        store.follower.catch_up()
    # What came before the hole was applied, and nothing behind it.
    assert store.follower.snapshot.offset < hole
    assert len(store.follower.snapshot.pods) == store.follower.snapshot.offset


@pytest.mark.parametrize("subscribed", [False, True])
@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b'{"v":1,"type":"Tomorrow"}', "unknown type 'Tomorrow'"),
        (declared.UNREADABLE, "a workloadpolicies object cannot be read"),
        (declared.UNREADABLE.replace(b"workloadpolicies", b"gadgets"), "a gadgets object cannot be read"),
    ],
)
def test_an_event_of_a_newer_version_stops_the_follower_where_it_is(
    store: stores.Store, payload: bytes, problem: str, subscribed: bool
) -> None:
    if subscribed:
        store.follower.subscribe(lambda before, after, entry: None)
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    store.client.xadd(store.keys.log, {"t": 1, "e": payload}, id="2-0")
    store.client.hset(store.keys.meta, keys.HEAD, "2")
    with pytest.raises(errors.Unreadable, match=problem):
        store.follower.catch_up()
    with pytest.raises(errors.Unreadable, match=problem):
        histories.Histories(store.log, store.follower).at(2)
