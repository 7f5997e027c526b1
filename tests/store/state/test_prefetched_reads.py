"""A prefetched read serves its own caller only, and misses nothing."""

import threading
from concurrent import futures

import pytest

from app.domain import projections
from app.store import errors, stores
from app.store.log import batches, readers
from app.store.state import followers
from tests.support.decisions import recomputation
from tests.support.store import crash_safe_server, embedded_stores, writers


def test_a_prefetched_read_is_not_shared_with_later_callers(store: stores.Store) -> None:
    follower = store.follower
    follower.catch_up()
    for i in range(50):
        with follower.prefetch():
            store.log.append(batches.Batch(events=[writers.seen(f"u{i}")]))
            with futures.ThreadPoolExecutor() as others:
                assert others.submit(follower.catch_up).result().offset == i + 1
            assert follower.catch_up().offset == i + 1


def test_a_prefetched_reply_that_was_not_used_is_not_the_present_state(store: stores.Store) -> None:
    follower = store.follower
    follower.catch_up()
    for i in range(50):
        with follower.prefetch():
            if i % 2:
                assert i <= follower.catch_up().offset <= i + 1
        store.log.append(batches.Batch(events=[writers.seen(f"u{i}")]))
        assert follower.catch_up().offset == i + 1


def test_prefetching_in_many_threads_never_misses_what_was_appended_before(
    follower: followers.Follower, store: stores.Store
) -> None:
    behind: list[tuple[int, int]] = []

    def ask(name: int) -> None:
        for i in range(40):
            appended = store.log.append(batches.Batch(events=[writers.seen(f"u{name}-{i}")]))
            with follower.prefetch():
                seen = follower.catch_up(timeout=20).offset if i % 3 else appended.last
            if seen < appended.last:
                behind.append((appended.last, seen))

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert behind == []
    assert follower.catch_up().offset == 240


def test_a_request_sent_before_a_call_began_does_not_answer_it(
    follower: followers.Follower, store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.catch_up()
    send = readers.LogReader.ask
    begun, go = threading.Event(), threading.Event()
    seen: list[int] = []

    def late() -> None:
        with follower.prefetch():
            begun.set()
            go.wait(20)
            seen.append(follower.catch_up(timeout=20).offset)

    later = threading.Thread(target=late)

    def ask(reader: readers.LogReader, after: int, known_ms: int | None = None) -> bool:
        sent = send(reader, after, known_ms)
        store.log.append(batches.Batch(events=[writers.seen("u1")]))
        later.start()
        begun.wait(20)
        return sent

    with monkeypatch.context() as patched:
        patched.setattr(readers.LogReader, "ask", ask)
        with follower.prefetch():
            pass
    go.set()
    later.join()
    assert seen == [1]


def test_an_own_append_during_a_prefetch_is_applied_once(store: stores.Store) -> None:
    follower = store.follower
    before = follower.catch_up()
    with follower.prefetch():
        event = writers.seen("u1")
        appended = store.log.append(batches.Batch(events=[event]))
        follower.apply_own_append(projections.project(before, event), appended)
        follower.catch_up()
    after = follower.catch_up()
    assert after.offset == 1
    assert recomputation.kept(after) == recomputation.kept(projections.project(before, event))


def test_prefetching_from_a_store_that_is_away_raises_only_in_catch_up(
    durable: embedded_stores.EmbeddedStore,
) -> None:
    follower, server = durable.store.follower, durable.server
    follower.catch_up()
    crash_safe_server.await_written(server.url)
    server.kill()
    for _ in range(3):
        with follower.prefetch():
            pass
    with follower.prefetch(), pytest.raises(errors.StoreAway):
        follower.catch_up(timeout=0.3)
    server.restart()
    with follower.prefetch():
        assert follower.catch_up(timeout=20).offset == 0
