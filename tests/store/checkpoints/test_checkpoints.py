"""Checkpoints in a real store: written atomically, verified, thinned, and skipped if unusable."""

import itertools
from unittest import mock

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.store import errors, keys, snapshot_format, stores
from app.store.checkpoints import checkpoints, recovery_points
from app.store.state import followers, histories
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import recomputation, strategies
from tests.support.store import servers, writers


def written(store: stores.Store, history: list[events.AnyEvent]) -> list[snapshots.Snapshot]:
    """Append the history; the snapshots at every offset."""
    states = [store.follower.catch_up()]
    for event in history:
        writers.facts(store.log, states[-1], [event])
        states.append(projections.project(states[-1], event))
    return states


def kept_at(store: stores.Store, snapshot: snapshots.Snapshot) -> snapshot_format.Header:
    """Store a past snapshot as the compactor would have done then."""
    at_ms = store.histories.appended_ms(snapshot.offset)
    assert at_ms is not None
    return store.checkpoints.write(snapshot, at_ms)


def trimmed(store: stores.Store, keep: int, checkpoint: int) -> int:
    """Trim as if there were no other reader."""
    store.client.delete(store.keys.readers)
    return store.log.trim(keep, checkpoint, reader_timeout=60)


def pods(count: int, first: int = 0) -> list[events.AnyEvent]:
    return [writers.seen(f"u{i}", app=f"a{i % 3}") for i in range(first, first + count)]


@given(strategies.histories, st.data())
@settings(max_examples=sizes.examples(10), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_checkpoint_and_the_tail_are_the_full_fold_at_every_offset(
    store: stores.Store, history: list[events.AnyEvent], data: st.DataObject
) -> None:
    states = written(store, history)
    for state in states[1:]:
        header = kept_at(store, state)
        assert header.digest == snapshot_format.digest(state)
    start, straight = states[0].offset, states[-1]
    kept = {header.offset: header for header in store.checkpoints.headers()}
    for state in states[1:]:
        read = store.checkpoints.read(
            kept[state.offset], incarnation=store.log.incarnation, indexed=state.indexed
        )
        tail = [event for event in history[state.offset - start :]]
        there = projections.project_all(read, tail)
        assert recomputation.kept(there) == recomputation.kept(straight)
        assert snapshot_format.digest(there) == snapshot_format.digest(straight)
    trim_below = data.draw(st.sampled_from(states)).offset
    if trim_below > start:
        trimmed(store, trim_below, trim_below)
        begun = follower_of(store)
        assert snapshot_format.digest(begun.catch_up()) == snapshot_format.digest(straight)
        past = histories.Histories(store.log, begun, begin_of(store), kept=2)
        for state in states:
            if state.offset >= trim_below:
                assert snapshot_format.digest(past.at(state.offset)) == snapshot_format.digest(state)
        begun.stop()


def begin_of(store: stores.Store) -> recovery_points.RecoveryPoints:
    return recovery_points.RecoveryPoints(store.log, store.checkpoints)


def follower_of(store: stores.Store) -> followers.Follower:
    return followers.Follower(
        store.log,
        schema=declared.SCHEMA,
        indexed=frozenset(("app", "rl-job-group")),
        recovery=begin_of(store),
    )


def test_a_follower_begins_at_the_newest_checkpoint(store: stores.Store) -> None:
    states = written(store, pods(20))
    kept_at(store, states[5])
    kept_at(store, states[15])
    follower = follower_of(store)
    found = follower.catch_up()
    assert (found.offset, snapshot_format.digest(found)) == (20, snapshot_format.digest(states[20]))
    assert follower.nearest(14) is None
    assert (at_15 := follower.nearest(19)) is not None
    assert at_15.offset == 15
    assert follower.nodes_at(model.Position(found.position.incarnation, 14)) is None
    follower.stop()


def test_a_damaged_checkpoint_is_skipped_for_an_older_one(store: stores.Store) -> None:
    states = written(store, pods(20))
    older = kept_at(store, states[5])
    newest = kept_at(store, states[15])
    key = store.keys.checkpoint(newest.offset, newest.parts, 1)
    raw = store.client.get(key)
    assert isinstance(raw, bytes)
    store.client.set(key, raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:])
    with pytest.raises(errors.Damaged):
        store.checkpoints.read(newest, incarnation=store.log.incarnation)
    begun = begin_of(store).newest(indexed=frozenset())
    assert begun.snapshot.offset == 5
    store.client.delete(store.keys.checkpoint(5, older.parts, 0))
    assert begin_of(store).newest(indexed=frozenset()).snapshot.offset == 0
    follower = follower_of(store)
    assert snapshot_format.digest(follower.catch_up()) == snapshot_format.digest(states[20])
    follower.stop()


def test_a_checkpoint_of_a_lost_tail_is_skipped(store: stores.Store) -> None:
    states = written(store, pods(10))
    kept_at(store, states[4])
    lost = kept_at(store, states[9])
    # The entry there was appended at another time: another history.
    store.checkpoints.remove(lost)
    store.checkpoints.write(states[9], lost.at_ms - 1)
    assert begin_of(store).newest(indexed=frozenset()).snapshot.offset == 4
    # One beyond the head.
    store.client.hset(store.keys.meta, keys.HEAD, 3)
    assert begin_of(store).newest(indexed=frozenset()).snapshot.offset == 0


def test_a_writer_that_dies_half_way_leaves_nothing_behind(store: stores.Store) -> None:
    states = written(store, pods(5))
    image = snapshot_format.serialize(states[5], cluster="c", at_ms=1)
    store.client.set(store.keys.checkpoint(5, "dead", 0), image.members[0], ex=600)
    assert store.checkpoints.headers() == []
    header = store.checkpoints.keep(image)
    values = [store.keys.checkpoint(5, header.parts, number) for number in range(header.lines)]
    assert {store.client.ttl(key) for key in values} == {-1}
    # The second writer keeps the first one's checkpoint, and leaves no values of its own.
    assert store.checkpoints.keep(image) == header
    assert len(store.client.keys(store.keys.checkpoint(5, "*", 0))) == 2  # with the dead one
    assert store.checkpoints.serialized(header).members == image.members
    store.checkpoints.remove(header)
    assert store.client.exists(*values, store.keys.checkpoints) == 0


def test_a_checkpoint_is_whole_although_the_reply_to_its_header_was_lost(store: stores.Store) -> None:
    states = written(store, pods(5))
    image = snapshot_format.serialize(states[5], cluster="c", at_ms=1)
    execute = redis.client.Pipeline.execute

    def lose(pipeline: redis.client.Pipeline) -> None:
        execute(pipeline)
        raise redis.TimeoutError("Timeout reading from socket")

    with (
        mock.patch.object(redis.client.Pipeline, "execute", lose),
        pytest.raises(errors.StoreAway, match="Timeout"),
    ):
        store.checkpoints.keep(image)
    (header,) = store.checkpoints.headers()
    assert store.checkpoints.serialized(header).members == image.members


def test_a_checkpoint_is_in_one_slot(store: stores.Store) -> None:
    tag = f"topolog:{{{store.keys.cluster}}}:"
    assert store.keys.checkpoints.startswith(tag)
    assert store.keys.checkpoint(3, "a", 0).startswith(tag)
    assert store.keys.readers.startswith(tag)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60, unique=True), st.integers(3, 12))
@settings(max_examples=sizes.examples(50), deadline=None)
def test_thinning_keeps_the_ends_and_no_more_than_asked(offsets: list[int], most: int) -> None:
    gone = checkpoints.superfluous(offsets, most)
    left = sorted(set(offsets) - set(gone))
    assert len(left) == min(most, len(offsets))
    assert left[0] == min(offsets)
    assert left[-2:] == sorted(offsets)[-2:]


def test_the_spacing_of_checkpoints_grows_with_age() -> None:
    kept: list[int] = []
    for offset in range(1000, 1_001_000, 1000):
        kept.append(offset)
        gone = checkpoints.superfluous(kept, 12)
        kept = [one for one in kept if one not in gone]
    gaps = [later - earlier for earlier, later in itertools.pairwise(kept)]
    assert max(gaps[-4:]) <= 8000
    # Whatever the age, the next older one is never more than a few times as old.
    ages = [1_001_000 - offset for offset in reversed(kept)]
    assert max(older / younger for younger, older in itertools.pairwise(ages)) < 5


def test_nothing_is_trimmed_that_no_checkpoint_covers(store: stores.Store) -> None:
    states = written(store, pods(10))
    with pytest.raises(errors.Uncovered):
        trimmed(store, 5, 5)
    kept_at(store, states[5])
    with pytest.raises(errors.Uncovered):
        trimmed(store, 6, 5)
    assert trimmed(store, 5, 5) == 4
    assert store.log.oldest() == 5
    store.client.hset(store.keys.meta, "incarnation", "other")
    with pytest.raises(errors.Rewound):
        trimmed(store, 5, 5)


def test_nothing_is_trimmed_under_a_reader_until_it_counts_as_dead(store: stores.Store) -> None:
    states = written(store, pods(10))
    kept_at(store, states[8])
    store.client.delete(store.keys.readers)
    store.client.hset(store.keys.readers, "slow", f"3 {store.log.state().now_ms}")
    with pytest.raises(errors.Held) as held:
        store.log.trim(8, 8, reader_timeout=60)
    assert (held.value.reader, held.value.offset) == ("slow", 3)
    assert store.log.trim(3, 8, reader_timeout=60) == 2
    store.client.hset(store.keys.readers, "slow", "3 1000")
    assert store.log.trim(8, 8, reader_timeout=60) == 5
    assert b"slow" not in store.client.hgetall(store.keys.readers)


def test_a_store_that_was_trimmed_opens_and_goes_on(store: stores.Store) -> None:
    states = written(store, pods(10))
    kept_at(store, states[10])
    trimmed(store, 10, 10)
    follower = follower_of(store)
    snapshot = follower.catch_up()
    writers.facts(store.log, snapshot, pods(3, first=50))
    assert follower.catch_up().offset == 13
    assert len(follower.snapshot.pods) == 13
    with pytest.raises(errors.Trimmed) as refused:
        histories.Histories(store.log, follower, begin_of(store)).at(7)
    assert refused.value.oldest == 10
    follower.stop()


def test_a_follower_left_behind_goes_on_from_a_checkpoint(store: stores.Store) -> None:
    follower = follower_of(store)
    states = written(store, pods(4))
    follower.catch_up()
    states = [*states[:-1], *written_on(store, states[-1], pods(6, first=10))]
    kept_at(store, states[10])
    trimmed(store, 10, 10)
    assert snapshot_format.digest(follower.catch_up()) == snapshot_format.digest(states[10])
    follower.stop()


def written_on(
    store: stores.Store, start: snapshots.Snapshot, history: list[events.AnyEvent]
) -> list[snapshots.Snapshot]:
    states = [start]
    for event in history:
        writers.facts(store.log, states[-1], [event])
        states.append(projections.project(states[-1], event))
    return states


def test_a_slow_subscriber_whose_events_were_trimmed_continues_and_the_jump_is_counted(
    store: stores.Store,
) -> None:
    follower = follower_of(store)
    states = written(store, pods(4))
    follower.catch_up()
    offsets: list[int] = []
    follower.subscribe(lambda before, after, entry: offsets.append(entry.offset))
    states = [*states[:-1], *written_on(store, states[-1], pods(6, first=10))]
    kept_at(store, states[10])
    trimmed(store, 10, 10)
    # The events in between are no longer available: subscribers read the state instead.
    assert follower.catch_up().offset == 10
    assert follower.jumps == 1
    written_on(store, states[-1], pods(1, first=20))
    follower.start()
    servers.eventually(lambda: offsets == [11], "the next event is delivered")
    assert follower.jumps == 1
    follower.stop()


def test_trimming_again_after_a_lost_answer_removes_nothing_more(store: stores.Store) -> None:
    states = written(store, pods(10))
    kept_at(store, states[10])
    assert trimmed(store, 10, 10) == 9
    assert trimmed(store, 10, 10) == 0
