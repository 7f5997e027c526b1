"""The connections of a log: no caller waits for a free one without a deadline."""

import contextlib
import time

import pytest

from app.store import errors, stores
from app.store.log import appenders, batches

NOTHING = batches.Batch(events=())


def test_an_append_that_gets_no_connection_fails_in_time(store: stores.Store) -> None:
    """All connections wait for a store that does not reply: the next call must not wait for them."""
    sessions = store.log._appender._sessions
    with contextlib.ExitStack() as held:
        for _ in range(appenders._SESSIONS):
            held.enter_context(sessions.borrowed(1.0))
        began = time.monotonic()
        with pytest.raises(errors.StoreAway, match="in use"):
            store.log.append(NOTHING, timeout=0.2)
        # Generous: the point is that it does not hang.
        assert time.monotonic() - began < 10
    assert store.log.append(NOTHING, timeout=2.0).last >= 0
