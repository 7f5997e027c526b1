"""The thread of the follower: subscribers receive each event once, in order, and it rests."""

import threading
import time
from collections import deque

import pytest

from app.domain import snapshots
from app.store import stores
from app.store.log import batches, readers
from app.store.state import followers, subscribers
from tests.support import declared
from tests.support.store import writers


def test_the_thread_follows_by_itself(follower: followers.Follower, store: stores.Store) -> None:
    assert follower.wait_until_caught_up(timeout=20)
    received = threading.Event()
    follower.subscribe(lambda _before, _after, _entry: received.set())
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    assert received.wait(20)
    assert follower.snapshot.offset == 1
    assert follower.error is None


def test_a_subscriber_is_notified_of_the_end_of_each_run_of_events() -> None:
    notified, received = subscribers.Subscribers(), list[object]()
    before = after = snapshots.empty(schema=declared.SCHEMA)

    def put(offset: int) -> None:
        notified.put(before, after, readers.Entry(offset, 0, writers.seen(f"u{offset}")))

    def receive(_before: snapshots.Snapshot, _after: snapshots.Snapshot, entry: readers.Entry) -> None:
        received.append(entry.offset)
        if entry.offset == 1:
            put(3)  # It arrives while the first run is delivered.
        if entry.offset == 2:
            raise ValueError("a subscriber failed")

    notified.add(receive, lambda: received.append("end"))
    notified.notify()
    put(1)
    put(2)
    with pytest.raises(ValueError, match="a subscriber failed"):
        notified.notify()
    assert received == [1, 2, "end", 3, "end"]


def test_events_that_are_dropped_while_they_are_delivered_are_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notified, received = subscribers.Subscribers(), list[object]()

    class Dropped(deque[tuple[snapshots.Snapshot, snapshots.Snapshot, readers.Entry]]):
        """A thread that reads finds another incarnation just before the next event is taken."""

        def popleft(self) -> tuple[snapshots.Snapshot, snapshots.Snapshot, readers.Entry]:
            notified.forget()
            return super().popleft()

    monkeypatch.setattr(notified, "_pending", Dropped())
    notified.add(lambda *event: received.append(event), lambda: received.append("end"))
    state = snapshots.empty(schema=declared.SCHEMA)
    notified.put(state, state, readers.Entry(1, 0, writers.seen("u1")))
    notified.notify()
    assert received == ["end"]


def test_gather_reads_more_at_a_time_and_does_not_delay_catch_up(store: stores.Store) -> None:
    follower = store.follower
    received: list[int] = []
    follower.subscribe(lambda _before, _after, entry: received.append(entry.offset))
    follower.start(gather=60.0)
    assert follower.wait_until_caught_up(timeout=20)
    for i in range(5):
        store.log.append(batches.Batch(events=[writers.seen(f"u{i}")]))
    time.sleep(0.1)
    assert follower.snapshot.offset == 0
    assert follower.catch_up().offset == 5
    follower.stop()
    follower.start(gather=0.01)
    end = time.monotonic() + 20
    while len(received) < 5 and time.monotonic() < end:
        time.sleep(0.005)
    follower.stop()
    assert received == [1, 2, 3, 4, 5]


class Resting(threading.Event):
    """Records that a thread waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_for.set()
        return super().wait(timeout)


def test_the_thread_rests_while_other_threads_keep_the_snapshot_at_the_head(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extender that binds has applied its own placements already."""
    monkeypatch.setattr(followers, "_REST_SECONDS", 60.0)
    follower, stopping = store.follower, Resting()
    reached, known = threading.Event(), threading.Event()

    def receive(_before: snapshots.Snapshot, after: snapshots.Snapshot, _entry: readers.Entry) -> None:
        reached.set()
        if after.offset == 1:
            known.wait(20)

    follower.subscribe(receive)
    follower.start()
    vars(follower)["_stopping"] = stopping
    assert follower.wait_until_caught_up(timeout=20)
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    assert reached.wait(20)
    # Another thread reads the entry that the follower is about to wait for.
    store.log.append(batches.Batch(events=[writers.seen("u2")]))
    assert follower.catch_up().offset == 2
    known.set()
    assert stopping.waited_for.wait(20)
    store.log.append(batches.Batch(events=[writers.seen("u3")]))
    time.sleep(0.1)
    assert follower.snapshot.offset == 2
    assert follower.catch_up().offset == 3
    follower.stop()


def test_subscribers_get_each_event_once_and_in_order(
    follower: followers.Follower, store: stores.Store
) -> None:
    received: list[tuple[int, int, int]] = []
    done = threading.Event()

    def receive(before: snapshots.Snapshot, after: snapshots.Snapshot, entry: readers.Entry) -> None:
        received.append((before.offset, entry.offset, after.offset))
        assert threading.current_thread().name == "follower"
        if entry.offset == 60:
            done.set()

    follower.catch_up()
    follower.subscribe(receive)
    for i in range(20):
        store.log.append(batches.Batch(events=[writers.seen(f"u{i}-{j}") for j in range(3)]))
        follower.catch_up()
    assert done.wait(20)
    assert received == [(i, i + 1, i + 1) for i in range(60)]


def test_a_subscriber_that_fails_stops_neither_the_others_nor_the_follower(
    follower: followers.Follower, store: stores.Store
) -> None:
    received: list[int] = []
    done = threading.Event()

    def fail(_before: snapshots.Snapshot, _after: snapshots.Snapshot, entry: readers.Entry) -> None:
        raise RuntimeError(f"no thanks to {entry.offset}")

    def receive(_before: snapshots.Snapshot, _after: snapshots.Snapshot, entry: readers.Entry) -> None:
        received.append(entry.offset)
        if entry.offset == 2:
            done.set()

    follower.subscribe(fail)
    follower.subscribe(receive)
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    store.log.append(batches.Batch(events=[writers.seen("u2")]))
    assert done.wait(20)
    assert received == [1, 2]
