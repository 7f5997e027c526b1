"""The follower: nothing that was appended before catch_up is missing, and no loss goes unnoticed."""

import contextlib
import gc
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
from structlog import testing

from app import settings
from app.domain import events, projections, snapshots
from app.store import errors, keys, schemas, stores
from app.store.log import batches, codecs, logs, readers
from app.store.state import followers, histories, subscribers
from tests.support import declared, polling
from tests.support.decisions import recomputation
from tests.support.store import crash_safe_server, servers, writers


@pytest.fixture
def follower(store: stores.Store) -> Iterator[followers.Follower]:
    store.follower.start()
    yield store.follower
    store.follower.stop()


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[stores.Store]:
    """A store on a separate server with an append-only file."""
    opened = stores.open_store(
        settings.Store(socket_timeout=0.5),
        schema=declared.SCHEMA,
        cluster="own",
        embedded_dir=tmp_path,
    )
    yield opened
    opened.close()


def test_catch_up_sees_what_was_appended_before_it(follower: followers.Follower, store: stores.Store) -> None:
    for i in range(200):
        store.log.append(logs.Batch(events=[writers.seen(f"u{i}", f"n{i % 3}")]))
        snapshot = follower.catch_up()
        assert snapshot.offset == i + 1
        assert f"u{i}" in snapshot.pods


def test_the_cycle_collector_does_not_run_during_a_fold(store: stores.Store) -> None:
    follower = store.follower
    follower.catch_up()
    for start in range(0, 4000, 200):
        batch = [writers.seen(f"u{i}", f"n{i % 3}") for i in range(start, start + 200)]
        store.log.append(logs.Batch(events=batch))
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


def test_objects_read_before_the_cluster_is_listed_are_excluded_from_collections(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: hidden.append(store.follower.snapshot.offset))
    listed = events.Relisted(kind="pods", since="", until="7", reason="first list")
    for event in (writers.seen("u1"), writers.seen("u2"), listed, writers.seen("u3"), writers.seen("u4")):
        store.log.append(logs.Batch(events=[event]))
        store.follower.catch_up()
    # After the list, new objects are not assumed to be long-lived.
    assert hidden == [1, 2, 3]


def test_catch_up_in_many_threads_never_misses_what_was_appended_before(
    follower: followers.Follower, store: stores.Store
) -> None:
    behind: list[tuple[int, int]] = []

    def ask(name: int) -> None:
        for i in range(40):
            appended = store.log.append(logs.Batch(events=[writers.seen(f"u{name}-{i}")]))
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


def test_a_prefetched_read_is_not_shared_with_later_callers(store: stores.Store) -> None:
    follower = store.follower
    follower.catch_up()
    for i in range(50):
        with follower.prefetch():
            store.log.append(logs.Batch(events=[writers.seen(f"u{i}")]))
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
        store.log.append(logs.Batch(events=[writers.seen(f"u{i}")]))
        assert follower.catch_up().offset == i + 1


def test_prefetching_in_many_threads_never_misses_what_was_appended_before(
    follower: followers.Follower, store: stores.Store
) -> None:
    behind: list[tuple[int, int]] = []

    def ask(name: int) -> None:
        for i in range(40):
            appended = store.log.append(logs.Batch(events=[writers.seen(f"u{name}-{i}")]))
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
        store.log.append(logs.Batch(events=[writers.seen("u1")]))
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
        appended = store.log.append(logs.Batch(events=[event]))
        follower.apply_own_append(projections.project(before, event), appended)
        follower.catch_up()
    after = follower.catch_up()
    assert after.offset == 1
    assert recomputation.kept(after) == recomputation.kept(projections.project(before, event))


def test_prefetching_from_a_store_that_is_away_raises_only_in_catch_up(durable: stores.Store) -> None:
    follower = durable.follower
    follower.catch_up()
    assert durable.server is not None
    crash_safe_server.await_written(durable.server.url)
    durable.server.kill()
    for _ in range(3):
        with follower.prefetch():
            pass
    with follower.prefetch(), pytest.raises(errors.StoreAway):
        follower.catch_up(timeout=0.3)
    durable.server.restart()
    with follower.prefetch():
        assert follower.catch_up(timeout=20).offset == 0


def test_the_thread_follows_by_itself(follower: followers.Follower, store: stores.Store) -> None:
    assert follower.wait_until_caught_up(timeout=20)
    received = threading.Event()
    follower.subscribe(lambda _before, _after, _entry: received.set())
    store.log.append(logs.Batch(events=[writers.seen("u1")]))
    assert received.wait(20)
    assert follower.snapshot.offset == 1
    assert follower.error is None


def test_a_subscriber_is_notified_of_the_end_of_each_run_of_events() -> None:
    audience, received = subscribers.Subscribers(), list[object]()
    before = after = snapshots.empty(schema=declared.SCHEMA)

    def put(offset: int) -> None:
        audience.put(before, after, readers.Entry(offset, 0, writers.seen(f"u{offset}")))

    def receive(_before: snapshots.Snapshot, _after: snapshots.Snapshot, entry: readers.Entry) -> None:
        received.append(entry.offset)
        if entry.offset == 1:
            put(3)  # It arrives while the first run is delivered.
        if entry.offset == 2:
            raise ValueError("a subscriber failed")

    audience.add(receive, lambda: received.append("end"))
    audience.notify()
    put(1)
    put(2)
    with pytest.raises(ValueError, match="a subscriber failed"):
        audience.notify()
    assert received == [1, 2, "end", 3, "end"]


def test_gather_reads_more_at_a_time_and_does_not_delay_catch_up(store: stores.Store) -> None:
    follower = store.follower
    received: list[int] = []
    follower.subscribe(lambda _before, _after, entry: received.append(entry.offset))
    follower.start(gather=60.0)
    assert follower.wait_until_caught_up(timeout=20)
    for i in range(5):
        store.log.append(logs.Batch(events=[writers.seen(f"u{i}")]))
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
    store.log.append(logs.Batch(events=[writers.seen("u1")]))
    assert reached.wait(20)
    # Another thread reads the entry that the follower is about to wait for.
    store.log.append(logs.Batch(events=[writers.seen("u2")]))
    assert follower.catch_up().offset == 2
    known.set()
    assert stopping.waited_for.wait(20)
    store.log.append(logs.Batch(events=[writers.seen("u3")]))
    time.sleep(0.1)
    assert follower.snapshot.offset == 2
    assert follower.catch_up().offset == 3
    follower.stop()


def test_a_log_of_many_chunks_is_read_whole(store: stores.Store) -> None:
    total = 2 * readers.CHUNK + 500
    for start in range(0, total, 250):
        batch = [writers.seen(f"u{i % 100}", f"n{i % 7}") for i in range(start, start + 250)]
        store.log.append(logs.Batch(events=batch))
    assert not store.follower.wait_until_caught_up(timeout=0)
    snapshot = store.follower.catch_up(timeout=20)
    assert store.follower.caught_up
    assert snapshot.offset == store.follower.head_seen == total
    assert recomputation.kept(snapshot) == recomputation.derived(snapshot)
    assert dict(snapshot.versions) == store.log.versions()


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
        store.log.append(logs.Batch(events=[writers.seen(f"u{i}-{j}") for j in range(3)]))
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
    store.log.append(logs.Batch(events=[writers.seen("u1")]))
    store.log.append(logs.Batch(events=[writers.seen("u2")]))
    assert done.wait(20)
    assert received == [1, 2]


def test_an_own_append_is_applied_only_if_it_is_ahead(store: stores.Store) -> None:
    base = store.follower.catch_up()
    event = writers.seen("u1")
    ahead = projections.project(base, event)
    appended = store.log.append(logs.Batch(events=[event]))
    store.follower.apply_own_append(ahead, appended)
    assert store.follower.snapshot is ahead
    store.follower.apply_own_append(base)
    assert store.follower.snapshot is ahead
    assert store.follower.catch_up() is ahead
    store.log.append(logs.Batch(events=[writers.seen("u2")]))
    assert set(store.follower.catch_up().pods) == {"u1", "u2"}


def test_a_follower_notices_a_flush(store: stores.Store) -> None:
    store.log.append(logs.Batch(events=[writers.seen("u1")]))
    store.follower.catch_up()
    store.client.delete(store.keys.log, store.keys.meta)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()
    # An operator may begin a later history: it is followed, from its beginning.
    schemas.migrate(store.client, store.keys, declared.SCHEMA)
    assert store.follower.catch_up().offset == 0


def test_a_follower_notices_a_cut_tail(store: stores.Store) -> None:
    store.log.append(logs.Batch(events=[writers.seen("u1"), writers.seen("u2")]))
    store.follower.catch_up()
    cut(store, 1)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()


@pytest.mark.parametrize("grown", [1, 3])
@pytest.mark.parametrize("adopted", [False, True])
def test_a_follower_notices_a_tail_that_was_cut_and_has_grown_again(
    store: stores.Store, grown: int, adopted: bool
) -> None:
    base = store.follower.catch_up()
    appended = store.log.append(logs.Batch(events=[writers.seen("u1")]))
    if adopted:
        store.follower.apply_own_append(projections.project(base, writers.seen("u1")), appended)
    else:
        store.follower.catch_up()
    grow_again(store, grown, after=appended)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()


def test_a_follower_of_a_lost_entry_starts_from_a_checkpoint_once_the_log_is_trimmed(
    store: stores.Store,
) -> None:
    """Nothing is left that its entry could be compared with: it would fold onto a pod that was lost."""
    appended = store.log.append(logs.Batch(events=[writers.seen("u1")]))
    store.follower.catch_up()
    grow_again(store, 3, after=appended)
    with contextlib.closing(another(store)) as other:
        other.follower.catch_up()
        at_ms = other.histories.appended_ms(2)
        assert at_ms is not None
        other.checkpoints.write(other.histories.at(2), at_ms)
        store.client.xtrim(store.keys.log, minid="2-0", approximate=False)
    found = store.follower.catch_up()
    assert sorted(found.pods) == ["other-0", "other-1", "other-2"]


def test_a_loss_is_reported_although_the_log_holds_a_later_entry_that_is_known(store: stores.Store) -> None:
    appended = store.log.append(logs.Batch(events=[writers.seen("u1")]))
    store.follower.catch_up()
    grow_again(store, 3, after=appended)
    # As a recorder does that becomes the leader.
    store.log.note(store.log.state().end)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()
    lost = store.log.state().lost
    assert lost is not None
    assert (lost.offset, lost.kept) == (1, 0)


def test_a_follower_notices_a_hole(store: stores.Store) -> None:
    store.log.append(logs.Batch(events=[writers.seen(f"u{i}") for i in range(5)]))
    store.client.xdel(store.keys.log, "3-0")
    with pytest.raises(errors.Gap):
        store.follower.catch_up()


@pytest.mark.parametrize(
    "hole", [1, readers.CHUNK, readers.CHUNK + 1, 2 * readers.CHUNK, 2 * readers.CHUNK + 50]
)
def test_a_follower_notices_a_hole_anywhere_in_a_long_log(store: stores.Store, hole: int) -> None:
    for start in range(0, 2 * readers.CHUNK + 100, 100):
        store.log.append(logs.Batch(events=[writers.seen(f"u{start + i}") for i in range(100)]))
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
    store.log.append(logs.Batch(events=[writers.seen("u1")]))
    store.client.xadd(store.keys.log, {"t": 1, "e": payload}, id="2-0")
    store.client.hset(store.keys.meta, keys.HEAD, "2")
    with pytest.raises(errors.Unreadable, match=problem):
        store.follower.catch_up()
    with pytest.raises(errors.Unreadable, match=problem):
        histories.Histories(store.log, store.follower).at(2)


def test_a_server_that_dies_is_away_within_the_timeout_and_back_after_a_restart(
    durable: stores.Store,
) -> None:
    server = durable.server
    assert server is not None
    durable.follower.start()
    durable.log.append(logs.Batch(events=[writers.seen("u1")], increments={"c": 1}))
    before = durable.follower.catch_up()
    crash_safe_server.await_written(server.url)
    server.kill()
    begun = time.monotonic()
    with pytest.raises(errors.StoreAway):
        durable.follower.catch_up(timeout=0.3)
    with pytest.raises(errors.StoreAway):
        durable.log.append(logs.Batch(events=[writers.seen("lost")]), timeout=0.3)
    # Generous: the point is that neither hangs.
    assert time.monotonic() - begun < 10
    assert durable.follower.snapshot is before
    server.start()
    assert durable.follower.catch_up(timeout=20).offset == 1
    durable.log.append(logs.Batch(events=[writers.seen("u2")]))
    assert set(durable.follower.catch_up(timeout=20).pods) == {"u1", "u2"}
    assert durable.log.counts() == {"c": 1}


def test_the_follower_logs_where_an_outage_begins_and_ends(durable: stores.Store) -> None:
    server = durable.server
    assert server is not None
    durable.log.append(logs.Batch(events=[writers.seen("u1")]))
    crash_safe_server.await_written(server.url)
    with testing.capture_logs() as lines:
        durable.follower.start()
        assert durable.follower.catch_up(timeout=20).offset == 1
        server.kill()
        polling.eventually(lambda: durable.follower.error, "the store is away")
        server.start()
        polling.eventually(lambda: durable.follower.error is None, "the store is back")
    own = [(line["log_level"], line["event"]) for line in lines if "the log" in line["event"]]
    assert own == [("warning", "cannot read the log"), ("info", "the log is read again")]


def test_a_server_that_hangs_is_away_within_the_timeout(durable: stores.Store) -> None:
    assert durable.server is not None
    durable.follower.catch_up()
    with servers.suspended(durable.server.pid), pytest.raises(errors.StoreAway):
        durable.follower.catch_up(timeout=0.2)
    # The answer to the question that was given up must not be taken for the next one's.
    durable.log.append(logs.Batch(events=[writers.seen("u1")]), timeout=20)
    assert durable.follower.catch_up(timeout=20).offset == 1


def test_a_reader_that_waits_for_another_one_is_behind(durable: stores.Store) -> None:
    assert durable.server is not None
    durable.follower.catch_up()
    with futures.ThreadPoolExecutor() as pool:
        with servers.suspended(durable.server.pid):
            reading = pool.submit(durable.follower.catch_up, timeout=20)
            polling.eventually(lambda: behind(durable.follower), "another thread is reading")
        assert reading.result(20).offset == 0


def behind(follower: followers.Follower) -> bool:
    """Whether the log cannot be read because another thread reads it."""
    try:
        follower.catch_up(timeout=0.01)
    except errors.Behind:
        return True
    except errors.StoreAway:
        return False
    return False


def test_lag_is_the_age_of_the_last_read_to_the_head(follower: followers.Follower) -> None:
    follower.catch_up()
    first = follower.lag_seconds
    assert first >= 0
    follower.stop()
    assert follower.lag_seconds > first


def cut(store: stores.Store, head: int) -> None:
    """Lose everything after an offset, as a server does that loses the end of its file."""
    client: Any = store.client
    names = store.keys
    if head:
        client.xdel(names.log, *(entry[0] for entry in client.xrange(names.log, min=f"{head + 1}-0")))
        at = client.xrange(names.log, min=f"{head}-0", count=1)[0][1][b"t"]
        client.hset(names.meta, mapping={keys.HEAD: head, "at": at})
    else:
        client.delete(names.log)
        client.hset(names.meta, keys.HEAD, "0")
        client.hdel(names.meta, "at")
    for session in list(client.scan_iter(names.session("*").replace("{", "[{]"), count=1000)):
        client.delete(session)


def grow_again(store: stores.Store, count: int, *, after: batches.Appended) -> None:
    """Lose all entries, and append others with another process, later than the former ones."""
    cut(store, 0)
    other = another(store)
    while store.client.time()[0] * 1000 + store.client.time()[1] // 1000 <= after.at_ms:
        pass  # the same millisecond would be the same moment
    other.log.append(logs.Batch(events=[writers.seen(f"other-{i}") for i in range(count)]))
    other.close()


def another(store: stores.Store) -> stores.Store:
    """The store as another process opens it."""
    return stores.open_store(
        settings.Store(url=store_url(store)), schema=declared.SCHEMA, cluster=cluster_of(store)
    )


def store_url(store: stores.Store) -> str:
    return f"unix://{store.client.connection_pool.connection_kwargs['path']}"


def cluster_of(store: stores.Store) -> str:
    return store.keys.prefix.partition("{")[2].partition("}")[0]


def test_an_event_that_changes_nothing_still_moves_the_position(store: stores.Store) -> None:
    quarantined = events.Quarantined(kind="pods", object="blue/x", reason="no uid")
    store.log.append(logs.Batch(events=[quarantined]))
    assert store.follower.catch_up().offset == 1


@pytest.mark.parametrize("grown", [0, 1, 2, 3])
def test_a_lost_own_append_is_noticed_at_the_next_read_even_if_it_was_never_read(
    store: stores.Store, grown: int
) -> None:
    """Even if others have appended since, until the log was as long again, or longer."""
    first = [writers.seen(f"u{at}") for at in range(5)]
    store.log.append(logs.Batch(events=first[:3]))
    store.follower.catch_up()
    store.log.append(logs.Batch(events=first[3:]))
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
