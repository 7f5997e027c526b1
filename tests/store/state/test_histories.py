"""The cluster as it was, at every offset and at any time."""

import pathlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from app.domain import events, model, projections, snapshots
from app.store import errors, stores
from app.store.checkpoints import archive_storage, archives
from app.store.log import batches, codecs, logs, readers
from app.store.state import fold_limit, followers, histories
from tests.support import declared, fold_counts
from tests.support.campaigns import sizes
from tests.support.decisions import recomputation, strategies
from tests.support.store import writers


def fill(store: stores.Store, history: list[events.AnyEvent]) -> list[snapshots.Snapshot]:
    """Append the history; the snapshots at every offset, the empty one first."""
    states = [store.follower.catch_up()]
    for event in history:
        writers.facts(store.log, states[-1], [event])
        states.append(projections.project(states[-1], event))
    return states


@given(strategies.histories)
@settings(max_examples=sizes.examples(10), deadline=None, suppress_health_check=list(HealthCheck))
def test_the_snapshot_at_every_offset_is_the_fold_up_to_it(
    store: stores.Store, history: list[events.AnyEvent]
) -> None:
    start = store.follower.catch_up()
    states = fill(store, history)
    fresh = followers.Follower(store.log, schema=declared.SCHEMA, indexed=store.follower.snapshot.indexed)
    past = histories.Histories(store.log, fresh, kept=4)
    for state in (*reversed(states), *states):
        found = past.at(state.offset)
        assert found.position == state.position
        assert recomputation.kept(found) == recomputation.kept(state)
        assert found.versions == state.versions
    assert states[0].position == start.position
    fresh.stop()


def test_a_moment_between_two_events_shows_the_first(store: stores.Store) -> None:
    fill(store, [writers.seen(f"u{i}") for i in range(6)])
    for offset, at_ms in ((1, 1000), (2, 2000), (3, 2000), (4, 3000), (5, 3001), (6, 9000)):
        rewrite(store, offset, at_ms)
    past = histories.Histories(store.log, followers.Follower(store.log, schema=declared.SCHEMA))
    wanted = {0: 0, 999: 0, 1000: 1, 1999: 1, 2000: 3, 2999: 3, 3000: 4, 3001: 5, 8999: 5, 9000: 6, 99_999: 6}
    assert {at: past.offset_at(at) for at in wanted} == wanted
    assert past.at(time_ms=2500).offset == 3


def rewrite(store: stores.Store, offset: int, at_ms: int) -> None:
    """Give an entry another time; a stream cannot be edited, so it is copied."""
    client: Any = store.client
    key = store.keys.log
    entries = client.xrange(key)
    client.delete(key)
    for identity, fields in entries:
        moved = {**fields, b"t": str(at_ms).encode()} if identity == f"{offset}-0".encode() else fields
        client.xadd(key, moved, id=identity)


def test_entries_are_found_by_range_kind_and_subject(store: stores.Store) -> None:
    fill(store, [writers.seen("u1"), writers.seen("u2"), writers.seen("u1", "n1"), a_node()])
    past = store.histories
    assert [entry.offset for entry in past.entries(2, 3)] == [2, 3]
    assert [entry.offset for entry in past.entries(0, limit=2)] == [1, 2]
    assert [entry.offset for entry in past.part(1, subject="pod:u1").entries] == [1, 3]
    assert [entry.offset for entry in past.part(1, kind="NodeSeen").entries] == [4]
    assert past.entries(5) == []


def test_the_rest_of_a_range_without_an_end_begins_behind_the_last_one_read(store: stores.Store) -> None:
    fill(store, [writers.seen("u1"), writers.seen("u2"), writers.seen("u1", "n1"), a_node()])
    past = store.histories
    assert past.part(1, subject="pod:u2").behind == 5
    assert past.part(2).behind == 5
    assert past.part(2, limit=2).behind == 4
    assert past.part(5).behind == 5


def a_node() -> events.NodeSeen:
    return events.NodeSeen(node=model.Node(name="n", uid="1"))


def test_what_is_not_written_yet_is_reported(store: stores.Store) -> None:
    fill(store, [writers.seen("u1")])
    with pytest.raises(errors.Beyond):
        store.histories.at(2)
    with pytest.raises(errors.Beyond):
        store.histories.at(-1)


def test_an_archive_that_reaches_into_what_was_lost_is_read_up_to_the_log(
    store: stores.Store, tmp_path: pathlib.Path
) -> None:
    states = fill(store, [writers.seen(f"u{i}") for i in range(1, 11)])
    expected, raws = store.log.read(0), store.log.raws(0, 10)
    # The former incarnation had archived 8 to 12 before it lost them; the present one has archived nothing.
    lost = [
        readers.Raw(offset=at, t=raws[-1].t, e=msgspec.Raw(codecs.encode(writers.seen(f"lost-{at}"))))
        for at in range(8, 13)
    ]
    archive = archives.Archive(
        archive_storage.Folder(tmp_path), store.keys.cluster, lambda: store.log.incarnation
    )
    archive.keep_segment([*raws[:7], *lost], "0-former")
    store.client.xtrim(store.keys.log, minid="5-0", approximate=False)
    follower = followers.Follower(store.log, schema=declared.SCHEMA)
    past = histories.Histories(store.log, follower, archive=archive)
    assert past.entries(1) == expected
    assert past.entries(3, 9) == expected[2:9]
    assert [raw for run in past.raws(2, 10) for raw in run] == raws[1:]
    assert recomputation.kept(past.at(10)) == recomputation.kept(states[10])


def test_what_was_trimmed_names_the_oldest_that_is_left(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=[writers.seen(f"u{i}") for i in range(5)]))
    store.client.xtrim(store.keys.log, minid="4-0", approximate=False)
    with pytest.raises(errors.Trimmed) as refused:
        store.histories.at(2)
    assert refused.value.oldest == 4


class Held:
    """Reads of the log that wait until they are released; counts them."""

    def __init__(self, log: logs.Log, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Semaphore(0)
        self.free = threading.Event()
        self.reads = 0
        self._read = log.read_past
        monkeypatch.setattr(log, "read_past", self._held)

    def _held(self, after: int, *, limit: int, incarnation: str | None = None) -> readers.Read:
        self.reads += 1
        self.begun.release()
        assert self.free.wait(30)
        return self._read(after, limit=limit, incarnation=incarnation)


def past_of(store: stores.Store, *, patience: float = 30.0) -> histories.Histories:
    """A past of which nothing is at hand."""
    return histories.Histories(
        store.log, followers.Follower(store.log, schema=declared.SCHEMA), patience=patience
    )


def test_no_snapshot_is_folded_from_two_incarnations(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, [writers.seen(f"u{i}") for i in range(4)])
    store.follower.catch_up()
    past, read_past = past_of(store), store.log.read_past

    def then_begins_another(after: int, *, limit: int, incarnation: str | None = None) -> readers.Read:
        read = read_past(after, limit=limit, incarnation=incarnation)
        store.client.hset(store.keys.meta, "incarnation", "another")
        monkeypatch.setattr(logs.Log, "incarnation", "another")
        return read

    monkeypatch.setattr(readers, "CHUNK", 2)
    monkeypatch.setattr(store.log, "read_past", then_begins_another)
    with pytest.raises(errors.Rewound):
        past.at(4)


def test_callers_of_one_position_share_its_fold(store: stores.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    states = fill(store, [writers.seen(f"u{i}") for i in range(6)])
    past, held = past_of(store), Held(store.log, monkeypatch)
    with ThreadPoolExecutor(8) as callers:
        asked = [callers.submit(past.at, 4) for _ in range(8)]
        assert held.begun.acquire(timeout=30)
        held.free.set()
        found = [one.result(30) for one in asked]
    assert held.reads == 1
    assert all(one is found[0] for one in found)
    assert recomputation.kept(found[0]) == recomputation.kept(states[4])


def test_positions_are_folded_one_at_a_time(store: stores.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    states = fill(store, [writers.seen(f"u{i}") for i in range(6)])
    past, held = past_of(store), Held(store.log, monkeypatch)
    running: list[int] = []
    most: list[int] = []
    reached: Callable[..., object] = past._reached

    def counted(near: object, offset: int, check: fold_limit.Check) -> object:
        running.append(offset)
        most.append(len(running))
        try:
            return reached(near, offset, check)
        finally:
            running.remove(offset)

    monkeypatch.setattr(past, "_reached", counted)
    with ThreadPoolExecutor(5) as callers:
        asked = [callers.submit(past.at, offset) for offset in (5, 1, 2, 3, 4)]
        assert held.begun.acquire(timeout=30)
        held.free.set()
        found = [one.result(30) for one in asked]
    assert set(most) == {1}
    assert [recomputation.kept(one) for one in found] == [
        recomputation.kept(states[offset]) for offset in (5, 1, 2, 3, 4)
    ]


@pytest.mark.parametrize("offset", [3, 4])
def test_a_caller_that_waits_too_long_is_refused(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    fill(store, [writers.seen(f"u{i}") for i in range(6)])
    past, held = past_of(store, patience=0.05), Held(store.log, monkeypatch)
    with ThreadPoolExecutor(1) as caller:
        first = caller.submit(past.at, 4)
        assert held.begun.acquire(timeout=30)
        with pytest.raises(errors.Busy):
            past.at(offset)
        held.free.set()
        assert first.result(30).offset == 4
    assert past.at(offset).offset == offset


class Gone(Exception):
    """A caller has left."""


def test_a_fold_ends_once_its_caller_has_left(store: stores.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    state = store.follower.catch_up()
    for start in range(0, 4000, 250):
        batch = [writers.seen(f"u{number % 7}", number=f"{number}") for number in range(start, start + 250)]
        writers.facts(store.log, state, batch)
        state = projections.project_all(state, batch)
    past, folded = past_of(store), fold_counts.applied(monkeypatch)
    answers = iter([False, False, True])

    def attended() -> None:
        if next(answers):
            raise Gone

    with pytest.raises(Gone):
        past.at(3500, attended=attended)
    assert 0 < sum(folded) <= 2000
    assert recomputation.kept(past.at(4000)) == recomputation.kept(state)
    assert next(answers, None) is None


class CountedLock:
    """A lock; ``taken`` is released whenever a thread has it."""

    def __init__(self) -> None:
        self.taken = threading.Semaphore(0)
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()
        self.taken.release()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_if_the_caller_of_a_shared_fold_leaves_one_of_the_others_folds(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = fill(store, [writers.seen(f"u{i}") for i in range(6)])
    past, held = past_of(store), Held(store.log, monkeypatch)
    lock = CountedLock()
    monkeypatch.setattr(past._folds, "_lock", lock)

    def attended() -> None:
        raise Gone

    with ThreadPoolExecutor(3) as callers:
        first = callers.submit(past.at, 4, attended=attended)
        assert held.begun.acquire(timeout=30)
        others = [callers.submit(past.at, 4) for _ in range(2)]
        # Each of the three has searched for a running fold with it.
        assert all(lock.taken.acquire(timeout=30) for _ in range(3))
        held.free.set()
        with pytest.raises(Gone):
            first.result(30)
        found = [one.result(30) for one in others]
    assert found[0] is found[1]
    assert recomputation.kept(found[0]) == recomputation.kept(states[4])
    assert held.reads == 2


def test_a_fold_that_fails_fails_for_all_and_is_tried_again(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, [writers.seen(f"u{i}") for i in range(6)])
    past = past_of(store)
    read = store.log.read_past
    failing: Callable[..., Any] = _away
    monkeypatch.setattr(store.log, "read_past", failing)
    with pytest.raises(errors.StoreAway):
        past.at(4)
    monkeypatch.setattr(store.log, "read_past", read)
    assert past.at(4).offset == 4


def _away(after: int, **_: object) -> readers.Read:
    raise errors.StoreAway("gone")


def test_large_events_are_held_up_to_a_number_of_bytes(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 10_000
    fill(store, [writers.seen(f"u{i}", large="x" * size) for i in range(60)])
    monkeypatch.setattr(histories, "MOST_BYTES", 5 * size)
    reads: list[int] = []
    read_past = store.log.read_past

    def counted(after: int, *, limit: int, incarnation: str | None = None) -> readers.Read:
        reads.append(limit)
        return read_past(after, limit=limit, incarnation=incarnation)

    monkeypatch.setattr(store.log, "read_past", counted)
    past = store.histories
    first = past.part(1, 60, limit=60, most_bytes=5 * size)
    assert ([entry.offset for entry in first.entries], first.behind) == ([1, 2, 3, 4, 5], 6)
    found = past.part(1, 60, kind="NodeSeen")
    assert (found.entries, found.behind) == ([], 61)
    assert 0 < max(reads[2:]) <= 5, "pieces of as many entries as may be held"
    assert [entry.offset for entry in past.part(7, most_bytes=1).entries] == [7]
