"""A follower whose server dies or hangs: it is away in time, and back without a loss."""

import time
from concurrent import futures

import pytest
from structlog import testing

from app.store import errors
from app.store.log import batches
from app.store.state import followers
from tests.support import polling
from tests.support.store import crash_safe_server, embedded_stores, materialised, servers, writers


def test_a_server_that_dies_is_away_within_the_timeout_and_back_after_a_restart(
    durable: embedded_stores.EmbeddedStore,
) -> None:
    store, server = durable
    store.follower.start()
    store.log.append(batches.Batch(events=[writers.seen("u1")], increments={"c": 1}))
    before = store.follower.catch_up()
    crash_safe_server.await_written(server.url)
    server.kill()
    begun = time.monotonic()
    with pytest.raises(errors.StoreAway):
        store.follower.catch_up(timeout=0.3)
    with pytest.raises(errors.StoreAway):
        store.log.append(batches.Batch(events=[writers.seen("lost")]), timeout=0.3)
    # Generous: the point is that neither hangs.
    assert time.monotonic() - begun < 10
    assert store.follower.snapshot is before
    server.start()
    assert store.follower.catch_up(timeout=20).offset == 1
    store.log.append(batches.Batch(events=[writers.seen("u2")]))
    assert set(store.follower.catch_up(timeout=20).pods) == {"u1", "u2"}
    assert materialised.counts(store) == {"c": 1}


def test_the_follower_logs_where_an_outage_begins_and_ends(durable: embedded_stores.EmbeddedStore) -> None:
    store, server = durable
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    crash_safe_server.await_written(server.url)
    with testing.capture_logs() as lines:
        store.follower.start()
        assert store.follower.catch_up(timeout=20).offset == 1
        server.kill()
        polling.eventually(lambda: store.follower.error, "the store is away")
        server.start()
        polling.eventually(lambda: store.follower.error is None, "the store is back")
        # The line follows the error's end.
        polling.eventually(lambda: lines and lines[-1]["event"] == "the log is read again", "the line")
    own = [(line["log_level"], line["event"]) for line in lines if "the log" in line["event"]]
    assert own == [("warning", "cannot read the log"), ("info", "the log is read again")]


def test_a_server_that_hangs_is_away_within_the_timeout(durable: embedded_stores.EmbeddedStore) -> None:
    store, server = durable
    store.follower.catch_up()
    with servers.suspended(server.pid), pytest.raises(errors.StoreAway):
        store.follower.catch_up(timeout=0.2)
    # The answer to the question that was given up must not be taken for the next one's.
    store.log.append(batches.Batch(events=[writers.seen("u1")]), timeout=20)
    assert store.follower.catch_up(timeout=20).offset == 1


def test_a_reader_that_waits_for_another_one_is_behind(durable: embedded_stores.EmbeddedStore) -> None:
    store, server = durable
    store.follower.catch_up()
    with futures.ThreadPoolExecutor() as pool:
        with servers.suspended(server.pid):
            reading = pool.submit(store.follower.catch_up, timeout=20)
            polling.eventually(lambda: behind(store.follower), "another thread is reading")
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
