"""The connections of a log: nobody waits for one of them without a deadline."""

import time

import pytest

from app.store import errors, logs, opening

NOTHING = logs.Batch(events=())


def test_whoever_gets_no_connection_is_told_in_time(store: opening.Store) -> None:
    """All of them wait for a store that is silent: the next call must not wait for those."""
    sessions = store.log._sessions
    held = [sessions.get() for _ in range(sessions.qsize())]
    began = time.monotonic()
    with pytest.raises(errors.StoreAway, match="in use"):
        store.log.append(NOTHING, timeout=0.2)
    assert time.monotonic() - began < 1.5
    for one in held:
        sessions.put(one)
    assert store.log.append(NOTHING, timeout=2.0).last >= 0
