"""The waits of one caller while the store is silent add up to the time that its error may take (P12).

Every wait is as long as the time limit that it was given, by a clock that nothing else advances.
"""

import dataclasses

import pytest
import redis

from app.kube import errors as kube_errors
from app.kube.writes import binding
from app.store.server import connections, retries
from app.store.state import catch_up
from app.verbs import candidates, errors, filtering
from tests.support import declared
from tests.support.decisions import no_cluster
from tests.support.extender import bind_plays, replicas

LIMIT = 2.0
"""Seconds after which every caller has its error (P12)."""
BUSY = [0.0, 0.9, 1.7, 1.79, 60.0]
"""Seconds for which other callers, however many there are, read the log before this one may."""
FOUND = [
    "redis://a",
    "redis+sentinel://a/m",
    "redis+sentinel://a,b,c,d,e/m",
    "redis+cluster://a",
    "redis+cluster://a,b,c,d,e,f",
    f"redis+cluster://{','.join(f'n{number}' for number in range(100))}",
]


class Clock:
    """Seconds of all waits so far."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Silent:
    """A connection to a server that is stopped: it is accepted, and no reply arrives, to AUTH neither."""

    def __init__(self, clock: Clock, *, opened: bool) -> None:
        self._clock = clock
        self._opened = opened
        self.socket_timeout = self.socket_connect_timeout = 60.0
        self.waits = 0

    def send_packed_command(self, _: connections.Packed) -> None:
        if not self._opened:
            self._wait(self.socket_timeout)

    def read_response(self, *, timeout: float) -> None:
        self._wait(timeout)

    def disconnect(self) -> None:
        self._opened = False

    def _wait(self, seconds: float) -> None:
        self.waits += 1
        self._clock.sleep(seconds)
        raise redis.TimeoutError("no reply")


class Held:
    """A lock that other callers hold until that time."""

    def __init__(self, clock: Clock, until: float) -> None:
        self._clock = clock
        self._until = until

    def acquire(self, *, blocking: bool = True, timeout: float = 0.0) -> bool:
        if blocking:
            self._clock.sleep(min(timeout, max(0.0, self._until - self._clock.now)))
        return self._clock.now >= self._until

    def release(self) -> None:
        """Nothing waits for it."""

    def __enter__(self) -> None:
        """The replica is closed."""

    def __exit__(self, *_: object) -> None:
        """See above."""


@dataclasses.dataclass
class SilentBinder(no_cluster.NoCluster):
    """An API server that does not answer, and receives no Binding."""

    clock: Clock
    asked: int = 0

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> binding.Current | None:
        self.asked += 1
        self.clock.sleep(timeout)
        raise kube_errors.Unreachable("no reply")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (retries, connections, catch_up):
        monkeypatch.setattr(module, "time", made)
    return made


def silenced(one: replicas.Replica, clock: Clock, *, opened: bool, busy: float) -> Silent:
    """Replace what the replica reads the log through; returns the connection."""
    wire = one.store.follower._cursor._reader._wire
    made = Silent(clock, opened=opened)
    wire.__dict__["_connection"] = made
    wire.open = opened
    one.store.follower._reads.__dict__["_lock"] = Held(clock, busy)
    one.context = dataclasses.replace(one.context, monotonic=clock.monotonic, sleep=clock.sleep)
    clock.now = 0.0
    return made


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("busy", BUSY)
@pytest.mark.parametrize("verb", ["filter", "bind"])
def test_a_caller_waits_for_no_longer_than_its_error_may_take(
    shop: replicas.Cluster, clock: Clock, verb: str, busy: float, *, opened: bool
) -> None:
    pod = shop.pod("web-1")
    shop.see()
    one = shop.replica()
    one.snapshot()
    one.offer(pod)
    connection = silenced(one, clock, opened=opened, busy=busy)
    if verb == "bind":
        assert "nothing was bound" in one.bind(pod, "h1")
    else:
        with one.store.follower.prefetch(), pytest.raises(errors.StateAway):
            filtering.run(one.context, pod, candidates.Candidates(["h1"]))
    assert connection.waits or busy > LIMIT
    assert 0 < clock.now <= LIMIT


@pytest.mark.parametrize("url", FOUND, ids=lambda url: url[:40])
@pytest.mark.parametrize("busy", BUSY)
def test_a_caller_waits_for_no_longer_while_the_server_cannot_be_found(
    shop: replicas.Cluster, clock: Clock, monkeypatch: pytest.MonkeyPatch, url: str, busy: float
) -> None:
    """Packets are dropped: no connection to a sentinel, a node or the server is accepted."""
    connects: list[redis.Connection] = []

    def dropped(connection: redis.Connection) -> None:
        connects.append(connection)
        clock.sleep(connection.socket_connect_timeout or 60.0)
        raise TimeoutError

    pod = shop.pod("web-1")
    shop.see()
    one = shop.replica()
    one.snapshot()
    one.offer(pod)
    silenced(one, clock, opened=True, busy=busy)
    monkeypatch.setattr(redis.Connection, "_connect", dropped)
    wire = connections.Wire(connections.connect(url, names=declared.names("c")))
    one.store.follower._cursor._reader._wire = wire
    for _ in range(3):
        clock.now = 0.0
        with one.store.follower.prefetch(), pytest.raises(errors.StateAway):
            filtering.run(one.context, pod, candidates.Candidates(["h1"]))
        assert 0 < clock.now <= LIMIT
    assert connects or busy > LIMIT


@pytest.mark.parametrize("busy", BUSY)
def test_a_pod_that_must_be_read_from_a_silent_api_server_has_its_error_in_time(
    shop: replicas.Cluster, clock: Clock, busy: float
) -> None:
    """Neither the log nor this process has the pod, as if another replica had filtered it."""
    shop.see()
    one, pod = shop.replica(), shop.pod("web-1")
    one.snapshot()
    silenced(one, clock, opened=True, busy=busy)
    binder = SilentBinder(clock)
    one.context = dataclasses.replace(one.context, binder=binder)
    assert "cannot be read from the API server" in one.bind(pod, "h1")
    assert binder.asked == 1
    assert clock.now <= LIMIT


@pytest.mark.parametrize("labels", [replicas.WEB, {"version": "2"}], ids=["into the policy", "another"])
@pytest.mark.parametrize("busy", BUSY)
def test_a_pod_that_changes_while_the_store_is_silent_is_answered_in_time(
    shop: replicas.Cluster, clock: Clock, busy: float, labels: dict[str, str]
) -> None:
    """Its first Binding is refused: the store is not waited for again."""
    one, pod = shop.replica(), shop.pod("late", {"app": "other"})
    shop.see()
    one.snapshot()
    one.offer(pod)
    silenced(one, clock, opened=True, busy=busy)
    bind_plays.relabelled(shop, pod, labels)
    error = one.bind(pod, "h1")
    if labels == replicas.WEB:
        assert "nothing was bound" in error
        assert (shop.bound(pod), shop.asked("/binding")) == ("", 1)
    else:
        assert error == ""
        assert (shop.bound(pod), shop.asked("/binding")) == ("h1", 2)
    assert clock.now <= LIMIT
