"""The follower: nothing that was appended before catch_up is missing."""

import gc
import threading

import pytest

from app.domain import events, projections
from app.store import stores
from app.store.log import batches, readers
from app.store.state import followers
from tests.support.decisions import recomputation
from tests.support.store import materialised, writers


def test_catch_up_sees_what_was_appended_before_it(follower: followers.Follower, store: stores.Store) -> None:
    for i in range(200):
        store.log.append(batches.Batch(events=[writers.seen(f"u{i}", f"n{i % 3}")]))
        snapshot = follower.catch_up()
        assert snapshot.offset == i + 1
        assert f"u{i}" in snapshot.pods


def test_the_cycle_collector_does_not_run_during_a_fold(store: stores.Store) -> None:
    follower = store.follower
    follower.catch_up()
    for start in range(0, 4000, 200):
        batch = [writers.seen(f"u{i}", f"n{i % 3}") for i in range(start, start + 200)]
        store.log.append(batches.Batch(events=batch))
    begun: list[str] = []

    def count(phase: str, _: dict[str, int]) -> None:
        begun.append(phase)

    gc.callbacks.append(count)
    try:
        follower.catch_up(timeout=20)
        during = begun.count("start")
    finally:
        gc.callbacks.remove(count)
    assert gc.isenabled()
    assert follower.snapshot.offset == 4000
    assert during <= 2


def test_objects_are_excluded_from_collections_at_the_first_head_and_once_the_cluster_is_listed(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: hidden.append(store.follower.snapshot.offset))
    listed = events.Relisted(kind="pods", since="", until="7", reason="first list")
    for event in (writers.seen("u1"), writers.seen("u2"), listed, writers.seen("u3"), writers.seen("u4")):
        store.log.append(batches.Batch(events=[event]))
        store.follower.catch_up()
    # Not at each read before the list, which may never come: garbage would be excluded, too.
    assert hidden == [1, 3]


def test_catch_up_in_many_threads_never_misses_what_was_appended_before(
    follower: followers.Follower, store: stores.Store
) -> None:
    behind: list[tuple[int, int]] = []

    def ask(name: int) -> None:
        for i in range(40):
            appended = store.log.append(batches.Batch(events=[writers.seen(f"u{name}-{i}")]))
            seen = follower.catch_up(timeout=20).offset
            if seen < appended.last:
                behind.append((appended.last, seen))

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert behind == []
    assert follower.catch_up().offset == 240


def test_a_log_of_many_chunks_is_read_whole(store: stores.Store) -> None:
    total = 2 * readers.CHUNK + 500
    for start in range(0, total, 250):
        batch = [writers.seen(f"u{i % 100}", f"n{i % 7}") for i in range(start, start + 250)]
        store.log.append(batches.Batch(events=batch))
    assert not store.follower.wait_until_caught_up(timeout=0)
    snapshot = store.follower.catch_up(timeout=20)
    assert store.follower.caught_up
    assert snapshot.offset == store.follower.head_seen == total
    assert recomputation.kept(snapshot) == recomputation.derived(snapshot)
    assert dict(snapshot.versions) == materialised.versions(store)


def test_an_own_append_is_applied_only_if_it_is_ahead(store: stores.Store) -> None:
    base = store.follower.catch_up()
    event = writers.seen("u1")
    ahead = projections.project(base, event)
    appended = store.log.append(batches.Batch(events=[event]))
    store.follower.apply_own_append(ahead, appended)
    assert store.follower.snapshot is ahead
    store.follower.apply_own_append(base)
    assert store.follower.snapshot is ahead
    assert store.follower.catch_up() is ahead
    store.log.append(batches.Batch(events=[writers.seen("u2")]))
    assert set(store.follower.catch_up().pods) == {"u1", "u2"}


def test_lag_is_the_age_of_the_last_read_to_the_head(follower: followers.Follower) -> None:
    follower.catch_up()
    first = follower.lag_seconds
    assert first >= 0
    follower.stop()
    assert follower.lag_seconds > first


def test_an_event_that_changes_nothing_still_moves_the_position(store: stores.Store) -> None:
    quarantined = events.Quarantined(kind="pods", object="blue/x", reason="no uid")
    store.log.append(batches.Batch(events=[quarantined]))
    assert store.follower.catch_up().offset == 1
