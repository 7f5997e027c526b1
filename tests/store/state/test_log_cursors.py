"""A cursor without a thread: it reads to the head, applies updates, and moves to own appends."""

from collections.abc import Sequence
from unittest import mock

import pytest

from app.domain import events, projections
from app.store import stores
from app.store.checkpoints import recovery_points
from app.store.log import batches, readers
from app.store.state import log_cursors, subscribers
from tests.support import declared
from tests.support.store import writers


@pytest.fixture
def notified() -> subscribers.Subscribers:
    return subscribers.Subscribers()


@pytest.fixture
def cursor(store: stores.Store, notified: subscribers.Subscribers) -> log_cursors.LogCursor:
    return log_cursors.LogCursor(
        store.log, notified, schema=declared.SCHEMA, indexed=frozenset(), recovery=None
    )


def append(store: stores.Store, *uids: str) -> batches.Appended:
    return store.log.append(batches.Batch(events=[writers.seen(uid) for uid in uids]))


def arrived(store: stores.Store, start: log_cursors.Start) -> log_cursors.Update:
    with store.log._readers.borrowed(1.0) as reader:
        return log_cursors.Update(0.0, start, reader.read(start.snapshot.offset, start.appended_ms))


def test_a_read_reaches_the_head(store: stores.Store, cursor: log_cursors.LogCursor) -> None:
    append(store, "u1", "u2")
    assert not cursor.reached.is_set()
    assert cursor.read_to_head(timeout=5.0, requested=False)
    assert cursor.reached.is_set()
    assert set(cursor.snapshot.pods) == {"u1", "u2"}
    assert cursor.head_seen == 2


def test_a_request_in_advance_is_answered_as_of_when_it_was_sent(
    store: stores.Store, cursor: log_cursors.LogCursor
) -> None:
    cursor.read_to_head(timeout=5.0, requested=False)
    assert cursor.request()
    append(store, "u1")
    assert cursor.read_to_head(timeout=5.0, requested=True)
    assert cursor.snapshot.offset in (0, 1)
    assert cursor.read_to_head(timeout=5.0, requested=False)
    assert cursor.snapshot.offset == 1


def test_an_update_is_applied_only_where_it_started(
    store: stores.Store, cursor: log_cursors.LogCursor
) -> None:
    cursor.read_to_head(timeout=5.0, requested=False)
    start = cursor.start
    append(store, "u1")
    update = arrived(store, start)
    assert cursor.apply_update(update)
    assert set(cursor.snapshot.pods) == {"u1"}
    # The snapshot has everything up to the head of the update already.
    assert cursor.apply_update(update)
    append(store, "u2", "u3")
    late = arrived(store, start)
    assert late.read.head == 3
    assert not cursor.apply_update(late)
    assert cursor.snapshot.offset == 1


@pytest.mark.parametrize("subscribed", [False, True])
def test_an_own_append_is_applied_unless_a_subscriber_needs_its_event(
    store: stores.Store,
    cursor: log_cursors.LogCursor,
    notified: subscribers.Subscribers,
    subscribed: bool,
) -> None:
    cursor.read_to_head(timeout=5.0, requested=False)
    if subscribed:
        notified.add(lambda _before, _after, _entry: None)
    ahead = projections.project(cursor.snapshot, writers.seen("u1"))
    cursor.apply_own_append(ahead, append(store, "u1"))
    assert (cursor.snapshot is ahead) is not subscribed
    assert cursor.read_to_head(timeout=5.0, requested=False)
    assert cursor.snapshot.offset == 1
    assert len(notified) == int(subscribed)


def test_a_subscriber_that_is_far_behind_stops_the_read(
    store: stores.Store,
    cursor: log_cursors.LogCursor,
    notified: subscribers.Subscribers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscribers, "MAX_PENDING", 2)
    offsets: list[int] = []
    notified.add(lambda _before, _after, entry: offsets.append(entry.offset))
    append(store, "u1", "u2")
    assert cursor.read_to_head(timeout=5.0, requested=False)
    append(store, "u3")
    assert not cursor.read_to_head(timeout=5.0, requested=False)
    assert cursor.snapshot.offset == 2
    notified.notify()
    assert cursor.read_to_head(timeout=5.0, requested=False)
    notified.notify()
    assert offsets == [1, 2, 3]


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_read_that_fails_half_way_leaves_no_reply_for_the_next_one(
    store: stores.Store, cursor: log_cursors.LogCursor, monkeypatch: pytest.MonkeyPatch, trimmed: bool
) -> None:
    append(store, "u1")
    assert cursor.read_to_head(timeout=5.0, requested=False)
    append(store, "u2", "u3")
    if trimmed:
        recovery = mock.create_autospec(recovery_points.RecoveryPoints, instance=True)
        recovery.newest.return_value = (store.follower.catch_up(), None)
        monkeypatch.setattr(cursor, "_recovery", recovery)
    for start in range(0, 3 * readers.CHUNK, 250):
        append(store, *(f"u{at}" for at in range(start, start + 250)))
    if trimmed:
        store.client.xtrim(store.keys.log, minid="3-0", approximate=False)
    apply_all = projections.Projection.apply_all
    second = iter([False, True])

    def failing(projection: projections.Projection, run: Sequence[events.AnyEvent]) -> None:
        if next(second, False):
            raise ZeroDivisionError
        apply_all(projection, run)

    monkeypatch.setattr(projections.Projection, "apply_all", failing)
    # Its traceback lives on, as that of an error which is logged while another thread reads.
    with pytest.raises(ZeroDivisionError) as failure:
        cursor.read_to_head(timeout=5.0, requested=False)
    assert cursor.read_to_head(timeout=5.0, requested=False)
    assert cursor.snapshot.offset == 3 + 3 * readers.CHUNK
    assert failure.tb is not None
