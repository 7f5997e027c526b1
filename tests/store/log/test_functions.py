"""Refusals of the store's functions at their limits: other schemas, and what may be trimmed."""

import time
from collections.abc import Callable

import pytest

from app.domain import events
from app.store import errors, keys, schemas, stores
from app.store.log import batches, incarnations, logs
from tests.support.store import materialised, writers

NOW = 3_600.0
"""Timeout of readers in seconds; far more than a test takes."""
LOST = events.StoreRewound("former", 1, 2, "a test")

CALLS: dict[str, Callable[[stores.Store], object]] = {
    "append": lambda store: store.log.append(batches.Batch(events=())),
    "read": lambda store: store.log.read(0),
    "doubt": lambda store: store.log.report_loss(incarnations.Watermark(store.log.incarnation, 9, 1)),
    "trim": lambda store: store.log.trim(2, 3, reader_timeout=NOW),
    "rewind": lambda store: store.log.rewind(
        LOST, "ffffffffffff-aa", found=store.log.incarnation, guard=logs.NO_GUARD
    ),
}


@pytest.fixture
def filled(store: stores.Store) -> stores.Store:
    """Six entries, and the header of a checkpoint at the fourth."""
    for at in range(6):
        store.log.append(batches.Batch(events=[writers.seen(f"u{at}")]))
    store.client.hset(store.keys.checkpoints, "4", "{}")
    return store


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("schema", ["1", str(int(keys.SCHEMA) + 1), ""])
def test_a_store_of_another_schema_is_left_alone(filled: stores.Store, name: str, schema: str) -> None:
    if schema:
        filled.client.hset(filled.keys.meta, "schema", schema)
        # Only this one is known to have them.
        filled.client.hdel(filled.keys.meta, "offset", "counts")
    else:
        filled.client.hdel(filled.keys.meta, "schema")
    before = filled.client.hgetall(filled.keys.meta), filled.client.xlen(filled.keys.log)
    with pytest.raises(errors.SchemaMismatch):
        CALLS[name](filled)
    assert (filled.client.hgetall(filled.keys.meta), filled.client.xlen(filled.keys.log)) == before


def trim(store: stores.Store, keep: int, checkpoint: int = 4) -> int:
    return store.log.trim(keep, checkpoint, reader_timeout=NOW)


def test_what_a_checkpoint_covers_is_trimmed_and_nothing_else(filled: stores.Store) -> None:
    with pytest.raises(errors.Uncovered):
        trim(filled, 5)
    with pytest.raises(errors.Uncovered):
        trim(filled, 3, checkpoint=5)
    assert filled.log.oldest() == 1
    assert (trim(filled, 3), filled.log.oldest()) == (2, 3)
    assert (trim(filled, 4), filled.log.oldest()) == (1, 4)
    assert trim(filled, 4) == 0
    assert [entry.offset for entry in filled.log.read(3)] == [4, 5, 6]
    with pytest.raises(errors.Trimmed):
        filled.log.read(2)


def test_nothing_is_trimmed_of_a_log_that_is_not_the_one_that_is_known(filled: stores.Store) -> None:
    filled.client.hset(filled.keys.checkpoints, "7", "{}")
    with pytest.raises(errors.Rewound):
        trim(filled, 3, checkpoint=7)  # the log never came so far
    filled.client.hset(filled.keys.checkpoints, "6", "{}")
    assert trim(filled, 2, checkpoint=6) == 1
    filled.log.report_loss(incarnations.Watermark(filled.log.incarnation, 9, 1))
    with pytest.raises(errors.Rewound):
        trim(filled, 3)
    filled.client.hdel(filled.keys.meta, "lost")
    filled.client.hset(filled.keys.meta, "incarnation", "ffffffffffff-aa")
    with pytest.raises(errors.Rewound):
        trim(filled, 3)
    assert filled.client.xlen(filled.keys.log) == 5


def now_ms(store: stores.Store) -> int:
    return store.log.state().now_ms


def test_a_live_reader_blocks_trimming_of_entries_it_has_not_read(filled: stores.Store) -> None:
    filled.client.hset(
        filled.keys.readers, mapping={"slow": f"2 {now_ms(filled)}", "quick": f"6 {now_ms(filled)}"}
    )
    with pytest.raises(errors.Held) as held:
        trim(filled, 3)
    assert (held.value.reader, held.value.offset) == ("slow", 2)
    # What it has read includes its own offset: it can go on from there.
    assert trim(filled, 2) == 1


def test_a_reader_counts_as_dead_as_soon_as_its_time_is_over(filled: stores.Store) -> None:
    # In the second half of a second: its parts must not be taken from it.
    while not 500_000 <= int(filled.client.time()[1]) < 900_000:
        time.sleep(0.01)
    filled.client.hset(filled.keys.readers, "late", f"0 {now_ms(filled) - 600}")
    assert filled.log.trim(3, 4, reader_timeout=0.5) == 2


def test_readers_without_heartbeats_block_no_trimming_and_are_removed(filled: stores.Store) -> None:
    old, recent = now_ms(filled) - int(NOW * 1000) - 1000, now_ms(filled) - int(NOW * 1000) + 60_000
    filled.client.hset(
        filled.keys.readers, mapping={"dead": f"0 {old}", "odd": "what", "alive": f"4 {recent}"}
    )
    assert filled.log.consumers()["odd"] == (0, 0)
    assert trim(filled, 4) == 3
    assert set(filled.client.hkeys(filled.keys.readers)) == {b"alive"}


@pytest.mark.parametrize("ahead", [8 * 3_600, 2 * 86_400])
def test_a_heartbeat_dated_far_ahead_blocks_no_trimming(filled: stores.Store, ahead: int) -> None:
    """Its reader was killed before the server's clock was set back; no other heartbeat replaces it."""
    filled.client.hset(
        filled.keys.readers,
        mapping={"dead": f"0 {now_ms(filled) + 1000 * ahead}", "alive": f"4 {now_ms(filled) + 600_000}"},
    )
    assert trim(filled, 4) == 3
    assert set(filled.client.hkeys(filled.keys.readers)) == {b"alive"}


def test_the_time_of_a_new_incarnation_is_that_of_its_entry(filled: stores.Store) -> None:
    former = filled.log.incarnation
    assert filled.log.rewind(LOST, "ffffffffffff-aa", found=former, guard=logs.NO_GUARD)
    filled.log.follow("ffffffffffff-aa")
    (entry,) = filled.log.read(6)
    assert (entry.offset, entry.event) == (7, LOST)
    assert filled.client.hget(filled.keys.meta, "at") == str(entry.at_ms).encode()
    assert abs(now_ms(filled) - entry.at_ms) < NOW * 1000
    state = filled.log.state()
    # No recorder has written under an epoch.
    assert (state.epoch, state.writer, state.recorded_ms) == ("", "", 0)
    filled.log.prove(7, entry.at_ms)


def test_an_empty_store_begins_with_the_loss(filled: stores.Store) -> None:
    filled.client.delete(filled.keys.meta)
    assert filled.log.rewind(LOST, "ffffffffffff-aa", found="", guard=logs.NO_GUARD)
    filled.log.follow("ffffffffffff-aa")
    assert [(entry.offset, entry.event) for entry in filled.log.read(0)] == [(1, LOST)]
    assert materialised.versions(filled) == {LOST.subject: 1}
    assert materialised.counts(filled) == {}
    assert schemas.status(filled.client, filled.keys).ready
