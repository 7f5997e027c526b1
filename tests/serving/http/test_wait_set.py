"""Where too many connections are open, those that wait for the caller with the most give way."""

import contextlib
import selectors
import socket
from collections.abc import Callable, Iterator

import pytest
from gunicorn import config

from app.serving.http import connections, deadlines, wait_set
from app.serving.tls import role_names

Add = Callable[..., connections.Connection]


@pytest.fixture
def waiting() -> Iterator[wait_set.WaitSet]:
    with selectors.DefaultSelector() as poller:
        yield wait_set.WaitSet(poller, lambda *_: None)


@pytest.fixture
def add(waiting: wait_set.WaitSet) -> Iterator[Add]:
    """Adds a waiting connection of a caller, or of an address without a name."""
    with contextlib.ExitStack() as stack:

        def added(name: str = "", role: str = "viewer", *, since: float) -> connections.Connection:
            sock = stack.enter_context(socket.socket())
            place = ("192.0.2.1", int(since))
            conn = connections.Connection(config.Config(), sock, place, place, deadlines.Deadlines())
            if name:
                conn.identified(name, (role,))
            conn.since = since
            waiting.watch(conn, 0)
            return conn

        yield added


def test_the_caller_with_the_most_loses_those_that_wait_longest(waiting: wait_set.WaitSet, add: Add) -> None:
    few = [add("few", since=1), add("few", since=2)]
    many = [add("many", since=each) for each in (6, 5, 4, 3)]
    oldest_first = [*reversed(many)]
    assert waiting.to_evict(2) == oldest_first[:2]
    assert waiting.to_evict(4) == [*oldest_first[:2], few[0], oldest_first[2]]
    assert len(waiting.to_evict(7)) == 6


def test_unknown_callers_are_counted_by_address(waiting: wait_set.WaitSet, add: Add) -> None:
    add("one", since=1)
    unknown = [add(since=each) for each in (2, 3)]
    assert waiting.to_evict(1) == unknown[:1]


def test_kube_scheduler_gives_way_last(waiting: wait_set.WaitSet, add: Add) -> None:
    ours = [add("scheduler", role_names.SCHEDULER, since=each) for each in (1, 2, 3)]
    other = add("one", since=4)
    assert waiting.to_evict(2) == [other, ours[0]]
