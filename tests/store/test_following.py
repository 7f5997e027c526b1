"""The follower: nothing that was appended before catch_up is missing, and no loss goes unnoticed."""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from app import settings
from app.domain import events, projecting, snapshots
from app.store import codecs, errors, following, keys, logs, opening, tailing
from tests.domain import recomputing
from tests.store import writing


@pytest.fixture
def follower(store: opening.Store) -> Iterator[following.Follower]:
    store.follower.start()
    yield store.follower
    store.follower.stop()


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[opening.Store]:
    """A store on a server of its own that keeps an append-only file."""
    opened = opening.open_store(settings.Store(socket_timeout=0.5), cluster="own", embedded_dir=tmp_path)
    yield opened
    opened.close()


def test_catch_up_sees_what_was_appended_before_it(
    follower: following.Follower, store: opening.Store
) -> None:
    for i in range(200):
        store.log.append(logs.Batch(events=[writing.seen(f"u{i}", f"n{i % 3}")]))
        snapshot = follower.catch_up()
        assert snapshot.offset == i + 1
        assert f"u{i}" in snapshot.pods


def test_the_collector_does_not_go_through_what_is_folded(store: opening.Store) -> None:
    follower = store.follower
    follower.catch_up()
    for start in range(0, 4000, 200):
        batch = [writing.seen(f"u{i}", f"n{i % 3}") for i in range(start, start + 200)]
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


def test_what_is_read_before_the_cluster_is_listed_stays_hidden_from_the_collector(
    store: opening.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: hidden.append(store.follower.snapshot.offset))
    listed = events.Relisted(kind="pods", since="", until="7", reason="first list")
    for event in (writing.seen("u1"), writing.seen("u2"), listed, writing.seen("u3"), writing.seen("u4")):
        store.log.append(logs.Batch(events=[event]))
        store.follower.catch_up()
    # With the last of them nothing says any more that what comes will stay.
    assert hidden == [1, 2, 3]


def test_catch_up_in_many_threads_never_misses_what_was_appended_before(
    follower: following.Follower, store: opening.Store
) -> None:
    behind: list[tuple[int, int]] = []

    def ask(name: int) -> None:
        for i in range(40):
            appended = store.log.append(logs.Batch(events=[writing.seen(f"u{name}-{i}")]))
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


def test_what_was_asked_ahead_is_shared_with_nobody_who_came_later(store: opening.Store) -> None:
    follower = store.follower
    follower.catch_up()
    for i in range(50):
        with follower.asked():
            store.log.append(logs.Batch(events=[writing.seen(f"u{i}")]))
            with futures.ThreadPoolExecutor() as others:
                assert others.submit(follower.catch_up).result().offset == i + 1
            assert follower.catch_up().offset == i + 1


def test_an_answer_that_nobody_waited_for_is_nobodys_present(store: opening.Store) -> None:
    follower = store.follower
    follower.catch_up()
    for i in range(50):
        with follower.asked():
            if i % 2:
                assert i <= follower.catch_up().offset <= i + 1
        store.log.append(logs.Batch(events=[writing.seen(f"u{i}")]))
        assert follower.catch_up().offset == i + 1


def test_asking_ahead_in_many_threads_never_misses_what_was_appended_before(
    follower: following.Follower, store: opening.Store
) -> None:
    behind: list[tuple[int, int]] = []

    def ask(name: int) -> None:
        for i in range(40):
            appended = store.log.append(logs.Batch(events=[writing.seen(f"u{name}-{i}")]))
            with follower.asked():
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


def test_a_question_sent_before_a_caller_came_is_not_his(
    follower: following.Follower, store: opening.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.catch_up()
    tail_ask = follower._tail.ask
    begun, go = threading.Event(), threading.Event()
    seen: list[int] = []

    def late() -> None:
        with follower.asked():
            begun.set()
            go.wait(20)
            seen.append(follower.catch_up(timeout=20).offset)

    later = threading.Thread(target=late)

    def ask(after: int, known_ms: int | None = None) -> bool:
        sent = tail_ask(after, known_ms)
        store.log.append(logs.Batch(events=[writing.seen("u1")]))
        later.start()
        begun.wait(20)
        return sent

    with monkeypatch.context() as patched:
        patched.setattr(follower._tail, "ask", ask)
        with follower.asked():
            pass
    go.set()
    later.join()
    assert seen == [1]


def test_what_is_adopted_while_an_answer_is_on_its_way_is_counted_once(store: opening.Store) -> None:
    follower = store.follower
    before = follower.catch_up()
    with follower.asked():
        event = writing.seen("u1")
        appended = store.log.append(logs.Batch(events=[event]))
        follower.adopt(projecting.project(before, event), appended)
        follower.catch_up()
    after = follower.catch_up()
    assert after.offset == 1
    assert recomputing.kept(after) == recomputing.kept(projecting.project(before, event))


def test_asking_ahead_of_a_store_that_is_away_costs_and_tells_nothing(durable: opening.Store) -> None:
    follower = durable.follower
    follower.catch_up()
    assert durable.server is not None
    durable.server.kill()
    for _ in range(3):
        with follower.asked():
            pass
    with follower.asked(), pytest.raises(errors.StoreAway):
        follower.catch_up(timeout=0.3)
    durable.server.restart()
    with follower.asked():
        assert follower.catch_up(timeout=20).offset == 0


def test_the_thread_follows_by_itself(follower: following.Follower, store: opening.Store) -> None:
    assert follower.wait_until_caught_up(timeout=20)
    heard = threading.Event()
    follower.subscribe(lambda _before, _after, _entry: heard.set())
    store.log.append(logs.Batch(events=[writing.seen("u1")]))
    assert heard.wait(20)
    assert follower.snapshot.offset == 1
    assert follower.error is None


def test_who_has_no_haste_reads_more_at_a_time_and_catches_up_at_once(store: opening.Store) -> None:
    follower = store.follower
    heard: list[int] = []
    follower.subscribe(lambda _before, _after, entry: heard.append(entry.offset))
    follower.start(gather=60.0)
    assert follower.wait_until_caught_up(timeout=20)
    for i in range(5):
        store.log.append(logs.Batch(events=[writing.seen(f"u{i}")]))
    time.sleep(0.1)
    assert follower.snapshot.offset == 0
    assert follower.catch_up().offset == 5
    follower.stop()
    follower.start(gather=0.01)
    end = time.monotonic() + 20
    while len(heard) < 5 and time.monotonic() < end:
        time.sleep(0.005)
    follower.stop()
    assert heard == [1, 2, 3, 4, 5]


class Resting(threading.Event):
    """Tells when somebody begins to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_for.set()
        return super().wait(timeout)


def test_the_thread_rests_while_the_process_keeps_itself_at_the_head(
    store: opening.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extender that binds hears of its own promises again and again: it knows them already."""
    monkeypatch.setattr(following, "_ABREAST_SECONDS", 60.0)
    follower, stopping = store.follower, Resting()
    reached, known = threading.Event(), threading.Event()

    def hear(_before: snapshots.Snapshot, after: snapshots.Snapshot, _entry: tailing.Entry) -> None:
        reached.set()
        if after.offset == 1:
            known.wait(20)

    follower.subscribe(hear)
    follower.start()
    vars(follower)["_stopping"] = stopping
    assert follower.wait_until_caught_up(timeout=20)
    store.log.append(logs.Batch(events=[writing.seen("u1")]))
    assert reached.wait(20)
    # What the thread is about to ask for is read by somebody else.
    store.log.append(logs.Batch(events=[writing.seen("u2")]))
    assert follower.catch_up().offset == 2
    known.set()
    assert stopping.waited_for.wait(20)
    store.log.append(logs.Batch(events=[writing.seen("u3")]))
    time.sleep(0.1)
    assert follower.snapshot.offset == 2
    assert follower.catch_up().offset == 3
    follower.stop()


def test_a_log_of_many_chunks_is_read_whole(store: opening.Store) -> None:
    total = 2 * tailing.CHUNK + 500
    for start in range(0, total, 250):
        batch = [writing.seen(f"u{i % 100}", f"n{i % 7}") for i in range(start, start + 250)]
        store.log.append(logs.Batch(events=batch))
    assert not store.follower.wait_until_caught_up(timeout=0)
    snapshot = store.follower.catch_up(timeout=20)
    assert store.follower.caught_up
    assert snapshot.offset == store.follower.head_seen == total
    assert recomputing.kept(snapshot) == recomputing.derived(snapshot)
    assert dict(snapshot.versions) == store.log.versions()


def test_subscribers_hear_of_each_event_once_and_in_order(
    follower: following.Follower, store: opening.Store
) -> None:
    heard: list[tuple[int, int, int]] = []
    done = threading.Event()

    def hear(before: snapshots.Snapshot, after: snapshots.Snapshot, entry: tailing.Entry) -> None:
        heard.append((before.offset, entry.offset, after.offset))
        assert threading.current_thread().name == "follower"
        if entry.offset == 60:
            done.set()

    follower.catch_up()
    follower.subscribe(hear)
    for i in range(20):
        store.log.append(logs.Batch(events=[writing.seen(f"u{i}-{j}") for j in range(3)]))
        follower.catch_up()
    assert done.wait(20)
    assert heard == [(i, i + 1, i + 1) for i in range(60)]


def test_a_subscriber_that_fails_stops_neither_the_others_nor_the_follower(
    follower: following.Follower, store: opening.Store
) -> None:
    heard: list[int] = []
    done = threading.Event()

    def fail(_before: snapshots.Snapshot, _after: snapshots.Snapshot, entry: tailing.Entry) -> None:
        raise RuntimeError(f"no thanks to {entry.offset}")

    def hear(_before: snapshots.Snapshot, _after: snapshots.Snapshot, entry: tailing.Entry) -> None:
        heard.append(entry.offset)
        if entry.offset == 2:
            done.set()

    follower.subscribe(fail)
    follower.subscribe(hear)
    store.log.append(logs.Batch(events=[writing.seen("u1")]))
    store.log.append(logs.Batch(events=[writing.seen("u2")]))
    assert done.wait(20)
    assert heard == [1, 2]


def test_adopt_takes_only_what_is_ahead(store: opening.Store) -> None:
    base = store.follower.catch_up()
    event = writing.seen("u1")
    ahead = projecting.project(base, event)
    appended = store.log.append(logs.Batch(events=[event]))
    store.follower.adopt(ahead, appended)
    assert store.follower.snapshot is ahead
    store.follower.adopt(base)
    assert store.follower.snapshot is ahead
    assert store.follower.catch_up() is ahead
    store.log.append(logs.Batch(events=[writing.seen("u2")]))
    assert set(store.follower.catch_up().pods) == {"u1", "u2"}


def test_a_follower_notices_a_flush(store: opening.Store) -> None:
    store.log.append(logs.Batch(events=[writing.seen("u1")]))
    store.follower.catch_up()
    store.client.delete(store.keys.log, store.keys.meta)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()
    # An operator may begin a later history: it is followed, from its beginning.
    opening.migrate(store.client, store.keys)
    assert store.follower.catch_up().offset == 0


def test_a_follower_notices_a_cut_tail(store: opening.Store) -> None:
    store.log.append(logs.Batch(events=[writing.seen("u1"), writing.seen("u2")]))
    store.follower.catch_up()
    cut(store, 1)
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()


@pytest.mark.parametrize("grown", [1, 3])
@pytest.mark.parametrize("adopted", [False, True])
def test_a_follower_notices_a_tail_that_was_cut_and_has_grown_again(
    store: opening.Store, grown: int, adopted: bool
) -> None:
    base = store.follower.catch_up()
    appended = store.log.append(logs.Batch(events=[writing.seen("u1")]))
    if adopted:
        store.follower.adopt(projecting.project(base, writing.seen("u1")), appended)
    else:
        store.follower.catch_up()
    cut(store, 0)
    other = opening.open_store(settings.Store(url=store_url(store)), cluster=cluster_of(store))
    while store.client.time()[0] * 1000 + store.client.time()[1] // 1000 <= appended.at_ms:
        pass  # the same millisecond would be the same moment
    other.log.append(logs.Batch(events=[writing.seen(f"other-{i}") for i in range(grown)]))
    with pytest.raises(errors.Rewound):
        store.follower.catch_up()
    other.close()


def test_a_follower_notices_a_hole(store: opening.Store) -> None:
    store.log.append(logs.Batch(events=[writing.seen(f"u{i}") for i in range(5)]))
    store.client.xdel(store.keys.log, "3-0")
    with pytest.raises(errors.Gap):
        store.follower.catch_up()


@pytest.mark.parametrize(
    "hole", [1, tailing.CHUNK, tailing.CHUNK + 1, 2 * tailing.CHUNK, 2 * tailing.CHUNK + 50]
)
def test_a_follower_notices_a_hole_anywhere_in_a_long_log(store: opening.Store, hole: int) -> None:
    for start in range(0, 2 * tailing.CHUNK + 100, 100):
        store.log.append(logs.Batch(events=[writing.seen(f"u{start + i}") for i in range(100)]))
    store.client.xdel(store.keys.log, f"{hole}-0")
    with pytest.raises((errors.Gap, errors.Trimmed)):
        store.follower.catch_up()
    # What came before the hole was applied, and nothing behind it.
    assert store.follower.snapshot.offset < hole
    assert len(store.follower.snapshot.pods) == store.follower.snapshot.offset


def test_an_event_of_a_newer_version_stops_the_follower_where_it_is(store: opening.Store) -> None:
    store.log.append(logs.Batch(events=[writing.seen("u1")]))
    store.client.xadd(store.keys.log, {"t": 1, "e": b'{"v":1,"type":"Tomorrow"}'}, id="2-0")
    store.client.hset(store.keys.meta, keys.HEAD, "2")
    with pytest.raises(errors.Unreadable, match="Tomorrow"):
        store.follower.catch_up()


def test_a_server_that_dies_is_away_within_the_timeout_and_back_after_a_restart(
    durable: opening.Store,
) -> None:
    server = durable.server
    assert server is not None
    durable.follower.start()
    durable.log.append(logs.Batch(events=[writing.seen("u1")], increments={"c": 1}))
    before = durable.follower.catch_up()
    server.kill()
    begun = time.monotonic()
    with pytest.raises(errors.StoreAway):
        durable.follower.catch_up(timeout=0.3)
    with pytest.raises(errors.StoreAway):
        durable.log.append(logs.Batch(events=[writing.seen("lost")]), timeout=0.3)
    # Generous: the point is that neither hangs.
    assert time.monotonic() - begun < 10
    assert durable.follower.snapshot is before
    server.start()
    assert durable.follower.catch_up(timeout=20).offset == 1
    durable.log.append(logs.Batch(events=[writing.seen("u2")]))
    assert set(durable.follower.catch_up(timeout=20).pods) == {"u1", "u2"}
    assert durable.log.counts() == {"c": 1}


def test_a_server_that_hangs_is_away_within_the_timeout(durable: opening.Store) -> None:
    server = durable.server
    assert server is not None
    assert server.pid is not None
    durable.follower.catch_up()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(errors.StoreAway):
            durable.follower.catch_up(timeout=0.2)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    # The answer to the question that was given up must not be taken for the next one's.
    durable.log.append(logs.Batch(events=[writing.seen("u1")]), timeout=20)
    assert durable.follower.catch_up(timeout=20).offset == 1


def test_lag_is_the_age_of_the_last_look_at_the_head(follower: following.Follower) -> None:
    follower.catch_up()
    first = follower.lag_seconds
    assert first >= 0
    follower.stop()
    assert follower.lag_seconds > first


def cut(store: opening.Store, head: int) -> None:
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


def store_url(store: opening.Store) -> str:
    return f"unix://{store.client.connection_pool.connection_kwargs['path']}"


def cluster_of(store: opening.Store) -> str:
    return store.keys.prefix.partition("{")[2].partition("}")[0]


def test_an_event_that_changes_nothing_still_moves_the_position(store: opening.Store) -> None:
    quarantined = events.Quarantined(kind="pods", object="blue/x", reason="no uid")
    store.log.append(logs.Batch(events=[quarantined]))
    assert store.follower.catch_up().offset == 1


@pytest.mark.parametrize("grown", [0, 1, 2, 3])
def test_what_this_process_wrote_and_never_read_is_missed_at_its_next_read(
    store: opening.Store, grown: int
) -> None:
    """Be it that others, who knew nothing of it, have made the log as long again, or longer."""
    first = [writing.seen(f"u{at}") for at in range(5)]
    store.log.append(logs.Batch(events=first[:3]))
    store.follower.catch_up()
    store.log.append(logs.Batch(events=first[3:]))
    kept: Any = store.client.xrange(store.keys.log, max="3-0")
    store.client.delete(store.keys.log)
    other = codecs.encode(writing.seen("other"))
    kept += [(b"%d-0" % offset, {b"t": b"7", b"e": other, b"w": b""}) for offset in range(4, 4 + grown)]
    for identity, fields in kept:
        store.client.xadd(store.keys.log, fields, id=identity)
    store.client.hset(store.keys.meta, mapping={keys.HEAD: 3 + grown, "at": kept[-1][1][b"t"]})
    with pytest.raises(errors.Rewound, match="offset 5 was in the log"):
        store.follower.catch_up()
    lost = store.log.standing().lost
    assert lost is not None
    assert (lost.offset, lost.kept) == (5, 3)
