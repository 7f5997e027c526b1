"""A store behind sentinels: failovers, and which server counts as the master."""

import secrets
from collections.abc import Iterator, Mapping
from functools import partial

import pytest
import redis

from app.store import errors
from app.store.server import connections, discovery, urls
from tests.support import child_processes
from tests.support.store import deployments, servers

FAILOVERS = 50
"""Crashes, and switches by hand, of the campaign."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Watched]:
    made = servers.Watched(tmp_path_factory.mktemp("watched"))
    yield made
    made.close()


def test_after_a_failover_writers_and_readers_go_on_at_the_new_master(watched: servers.Watched) -> None:
    store = deployments.opened(watched.url, f"f{secrets.token_hex(4)}")
    store.start()
    try:
        before = deployments.append(store, "a", "b")
        store.follower.catch_up()
        former = watched.master
        servers.eventually(lambda: former.ask("WAIT", "1", "1000") == 1, "the replica has it")
        former.kill()
        appended = deployments.append_until_done(store, "c")
        assert (appended.first, appended.last) == (before.last + 1, before.last + 1)
        # The first sentinel may be notified after the ones that agreed.
        servers.eventually(lambda: watched.master is not former, "every sentinel has it")
        # The thread that follows finds its way too.
        servers.eventually(lambda: store.follower.snapshot.offset == appended.last, "it is followed")
        assert set(store.follower.snapshot.pods) == {"a", "b", "c"}
        former.start()
        watched.await_complete()
        # The former master is a replica now: no connection goes to it.
        assert deployments.append(store, "d").last == appended.last + 1
        assert former is watched.replica
    finally:
        store.close()


def test_acknowledged_events_that_a_failover_loses_are_reported(watched: servers.Watched) -> None:
    store = deployments.opened(watched.url, f"l{secrets.token_hex(4)}")
    try:
        deployments.append(store, "kept")
        with watched.parted() as master:
            assert deployments.append(store, "lost").last == 2
            master.kill()
        with pytest.raises(errors.Rewound):
            deployments.append_until_done(store, "next")
        with pytest.raises(errors.Rewound):
            store.log.read(2)
    finally:
        store.close()
        master.start()
        watched.await_complete()


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_one_failover_after_another(watched: servers.Watched) -> None:
    """Crashes and switches by hand; nothing that the replica had is lost, offsets stay dense."""
    store = deployments.opened(watched.url, f"d{secrets.token_hex(4)}")
    store.start()
    try:
        for number in range(1, 2 * FAILOVERS + 1):
            assert deployments.append_until_done(store, f"p{number}").last == number
            master, replica = watched.master, watched.replica
            servers.eventually(partial(replicated, master), "the replica has everything")
            if number % 2:
                master.kill()
            else:
                first = watched.sentinels[0]
                # A sentinel refuses until it has the replica's latest INFO.
                servers.eventually(
                    partial(first.ask, "SENTINEL", "FAILOVER", servers.MASTER), "the switch begins"
                )
            servers.eventually(partial(leads, watched, replica), "the sentinels have switched")
            if number % 2:
                master.start()
            watched.await_complete()
        assert [entry.offset for entry in store.log.read(0)] == list(range(1, 2 * FAILOVERS + 1))
        servers.eventually(lambda: store.follower.snapshot.offset == 2 * FAILOVERS, "the follower came along")
    finally:
        store.close()


def leads(watched: servers.Watched, server: servers.Server) -> bool:
    return watched.master is server


def replicated(master: servers.Server) -> bool:
    return master.ask("WAIT", "1", "1000") == 1


def test_the_master_needs_a_majority_of_the_sentinels(watched: servers.Watched) -> None:
    first, second, third = (sentinel.address for sentinel in watched.sentinels)
    closed = f"127.0.0.1:{child_processes.free_port()}"
    client = connections.connect(watched.url.replace(first, closed))
    assert client.ping()
    client.close()
    url = watched.url.replace(first, closed).replace(third, closed)
    assert second in url
    client = connections.connect(url)
    with (
        pytest.raises(errors.StoreAway, match=r"1 of 3 sentinels report .*, 2 are needed"),
        connections.translated(),
    ):
        client.ping()
    client.close()
    client = connections.connect(f"redis+sentinel://{second}/{servers.MASTER}")
    assert client.ping()
    client.close()
    client = connections.connect(f"redis+sentinel://{closed}/{servers.MASTER}")
    with pytest.raises(errors.StoreAway, match="0 of 1 sentinels report"), connections.translated():
        client.ping()
    client.close()
    client = connections.connect(watched.url.replace(servers.MASTER, "another"))
    with pytest.raises(errors.StoreAway, match="No such master"), connections.translated():
        client.ping()
    client.close()


class _Notifying(discovery.Sentinels):
    """Sentinels whose answers are given."""

    answers: dict[str, dict[str, str] | Exception]

    def ask(self, address: urls.Address, seconds: float = 0.5) -> dict[str, str]:
        answer = self.answers[address[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer


NEW = {"ip": "new", "port": "1", "config-epoch": "7"}
OLD = {"ip": "old", "port": "1", "config-epoch": "6"}


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([OLD, NEW, OLD], "new"),
        ([NEW, OSError("silent"), OLD], "new"),
        ([{"ip": "odd"}, OLD, NEW], "new"),
        ([OLD | {"config-epoch": "x"}, OLD | {"port": "y"}, NEW], ""),
        ([OSError("silent"), OSError("silent"), OLD], ""),
        ([OLD], "old"),
        ([OLD, OSError("silent")], ""),
    ],
)
def test_the_latest_failover_that_most_sentinels_include_decides(
    answers: list[dict[str, str] | Exception], found: str
) -> None:
    hosts = [f"s{at}" for at in range(len(answers))]
    sentinels = _Notifying(urls.parse(f"redis+sentinel://{','.join(hosts)}/m"))
    sentinels.answers = dict(zip(hosts, answers, strict=True))
    for _ in range(3):
        if found:
            assert sentinels.find(1.0) == (found, 1)
        else:
            with pytest.raises(redis.ConnectionError, match="are needed"):
                sentinels.find(1.0)


class _Misled(discovery.Sentinels):
    """Connected to a former master."""

    where: urls.Address = ("", 0)

    def find(self, _seconds: float) -> urls.Address:
        return self.where


def test_a_replica_is_not_taken_for_the_master(watched: servers.Watched) -> None:
    finder = _Misled(urls.parse(watched.url))
    finder.where = ("127.0.0.1", watched.replica.port)
    connection: discovery.Connected = discovery.discovering(finder, tls=False)()
    with pytest.raises(redis.ConnectionError, match="not the master"):
        connection.send_command("PING")


class _Divided(discovery.Sentinels):
    """The first sentinel has not learned of the failover."""

    def ask(self, address: urls.Address, seconds: float = 0.5) -> Mapping[str, str]:
        behind = address == self.addresses[0]
        return {"config-epoch": "9" if behind else "10", "ip": "old" if behind else "new", "port": "1"}


def test_the_sentinel_with_the_latest_failover_decides(watched: servers.Watched) -> None:
    assert _Divided(urls.parse(watched.url)).find(1.0) == ("new", 1)


def test_the_doctor_counts_the_sentinels(watched: servers.Watched) -> None:
    store = deployments.opened(watched.url, "doctored")
    store.close()
    found = deployments.examined(watched.url, "doctored")
    assert (found["sentinels"].grade, found["replicas"].grade) == ("good", "good")
    assert "3 of 3 answer" in found["sentinels"].found
    first, second, third = (sentinel.address for sentinel in watched.sentinels)
    closed = f"127.0.0.1:{child_processes.free_port()}"
    assert deployments.examined(watched.url.replace(third, closed), "doctored")["sentinels"].grade == "poor"
    lonely = watched.url.replace(third, closed).replace(first, f"127.0.0.1:{child_processes.free_port()}")
    assert second in lonely
    with pytest.raises(errors.StoreAway, match="1 of 3 sentinels report"):
        deployments.examined(lonely, "doctored")
    few = deployments.examined(f"redis+sentinel://{first},{second}/{servers.MASTER}", "doctored")["sentinels"]
    assert (few.grade, "three" in few.run) == ("poor", True)


def test_the_doctor_misses_the_users_of_the_roles(watched: servers.Watched) -> None:
    found = deployments.examined(watched.url, "roles")
    assert found["users of roles"].grade == "poor"
    assert "topolog doctor users" in found["users of roles"].run
