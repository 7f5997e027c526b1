"""A pool whose threads cannot be started for a while."""

import threading
from concurrent import futures

import pytest
from structlog import testing

from app.serving import thread_pools
from tests.support import polling, thread_limits

SIZE = 4


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No thread can be started until it is undone."""
    monkeypatch.setattr(threading.Thread, "start", thread_limits.refuse)
    return monkeypatch


def test_the_first_thread_starts_with_the_pool(limit: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="can't start new thread"):
        thread_pools.ThreadPool(SIZE, "verb")
    limit.undo()
    thread_pools.ThreadPool(SIZE, "verb").shutdown()


def test_a_pool_grows_again_once_threads_can_be_started(request: pytest.FixtureRequest) -> None:
    pool = thread_pools.ThreadPool(SIZE, "verb")
    limit: pytest.MonkeyPatch = request.getfixturevalue("limit")
    called: list[int] = []
    blocked = threading.Event()
    with testing.capture_logs() as lines:
        pool.submit(blocked.wait, 30.0)
        for number in range(20):
            pool.submit(called.append, number)
            assert pool.lacking
        blocked.set()
        polling.eventually(lambda: len(called) == 20, "the thread that runs takes all calls")
    assert called == list(range(20))
    assert [line["event"] for line in lines] == ["calls wait for a thread"]
    limit.undo()
    together = threading.Barrier(SIZE)
    found = [pool.submit(together.wait, 30.0) for _ in range(SIZE)]
    assert sorted(one.result() for one in found) == list(range(SIZE))
    assert not pool.lacking
    pool.shutdown()


def test_a_pool_that_was_shut_down_refuses_calls() -> None:
    pool = thread_pools.ThreadPool(SIZE, "verb")
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(futures.Future)
