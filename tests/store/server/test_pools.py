"""A pool of connections: the one used last is lent first, and no thread waits without a deadline."""

import pytest

from app.store import errors
from app.store.server import pools


class Connection:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_the_connection_used_last_is_lent_first() -> None:
    pool = pools.Pool(Connection, 3)
    with pool.borrowed(0.0) as first, pool.borrowed(0.0) as second:
        assert first is not second
    with pool.borrowed(0.0) as again:
        assert again is first


def test_without_a_free_connection_the_store_counts_as_away() -> None:
    pool = pools.Pool(Connection, 1)
    with pool.borrowed(0.0), pytest.raises(errors.StoreAway, match="in use"), pool.borrowed(0.01):
        pass
    with pytest.raises(ValueError, match="broken"), pool.borrowed(0.0):
        raise ValueError("broken")
    with pool.borrowed(0.0):
        pass


def test_only_idle_connections_are_closed() -> None:
    pool = pools.Pool(Connection, 2)
    with pool.borrowed(0.0) as used:
        pool.close()
        assert used.closed == 0
    pool.close()
    assert used.closed == 1
