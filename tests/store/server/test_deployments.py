"""Every way of running the store: the log works there, and stays right when the server changes."""

import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import redis
from click import testing

from app import cli, settings
from app.store import errors, keys, schemas, stores
from app.store.health import checks, doctor, readiness
from app.store.log import batches
from app.store.server import connections, discovery, urls
from migrations import runner
from tests.support import child_processes, declared
from tests.support.store import servers, view_oracle, writers

FAILOVERS = 50
"""Crashes, and switches by hand, of the campaign."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Watched]:
    made = servers.Watched(tmp_path_factory.mktemp("watched"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Sharded]:
    made = servers.Sharded(tmp_path_factory.mktemp("sharded"))
    yield made
    made.close()


def opened(url: str, cluster: str, *, timeout: float = 1.0) -> stores.Store:
    options = settings.Store(url=url, socket_timeout=timeout)
    names = declared.names(cluster)
    with schemas.connect(options, names) as client:
        assert schemas.migrate(client, names, declared.SCHEMA).ready
    return stores.open_store(options, schema=declared.SCHEMA, cluster=cluster)


def append(store: stores.Store, *uids: str) -> batches.Appended:
    return store.log.append(batches.Batch(events=[writers.seen(uid) for uid in uids]))


def append_until_done(store: stores.Store, uid: str) -> batches.Appended:
    """As the recorder does: away is not the end."""
    done: list[batches.Appended] = []

    def tried() -> bool:
        try:
            done.append(append(store, uid))
        except errors.StoreAway:
            return False
        return True

    servers.eventually(tried, "an append goes through")
    return done[0]


# -- Sentinel ------------------------------------------------------------------------------


def test_after_a_failover_writers_and_readers_go_on_at_the_new_master(watched: servers.Watched) -> None:
    store = opened(watched.url, f"f{secrets.token_hex(4)}")
    store.start()
    try:
        before = append(store, "a", "b")
        store.follower.catch_up()
        former = watched.master
        servers.eventually(lambda: former.ask("WAIT", "1", "1000") == 1, "the replica has it")
        former.kill()
        appended = append_until_done(store, "c")
        assert (appended.first, appended.last) == (before.last + 1, before.last + 1)
        # The first sentinel may be notified after the ones that agreed.
        servers.eventually(lambda: watched.master is not former, "every sentinel has it")
        # The thread that follows finds its way too.
        servers.eventually(lambda: store.follower.snapshot.offset == appended.last, "it is followed")
        assert set(store.follower.snapshot.pods) == {"a", "b", "c"}
        former.start()
        watched.await_complete()
        # The former master is a replica now: no connection goes to it.
        assert append(store, "d").last == appended.last + 1
        assert former is watched.replica
    finally:
        store.close()


def test_acknowledged_events_that_a_failover_loses_are_reported(watched: servers.Watched) -> None:
    store = opened(watched.url, f"l{secrets.token_hex(4)}")
    try:
        append(store, "kept")
        with watched.parted() as master:
            assert append(store, "lost").last == 2
            master.kill()
        with pytest.raises(errors.Rewound):
            append_until_done(store, "next")
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
    store = opened(watched.url, f"d{secrets.token_hex(4)}")
    store.start()
    try:
        for number in range(1, 2 * FAILOVERS + 1):
            assert append_until_done(store, f"p{number}").last == number
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


def linked(replica: servers.Server) -> bool:
    about = replica.ask("INFO", "replication")
    return isinstance(about, dict) and about["master_link_status"] == "up"


def reads(store: stores.Store, offset: int) -> bool:
    try:
        return store.follower.catch_up().offset == offset
    except (errors.StoreAway, errors.Rewound):
        return False


def test_a_server_that_became_a_replica_is_left(tmp_path: Path) -> None:
    """A sentinel closes the connections of clients; nothing closes them when a DNS name moves."""
    server = servers.Server(tmp_path / "one")
    store = opened(f"redis://{server.address}", "c", timeout=0.5)
    try:
        append(store, "a")
        pid = store.client.client_id()
        server.ask("REPLICAOF", "127.0.0.1", str(child_processes.free_port()))
        with pytest.raises(errors.StoreAway):
            append(store, "b")
        with pytest.raises(errors.StoreAway, match="elsewhere"), connections.translated():
            store.client.hset("topolog:{c}:x", "y", "z")
        server.ask("REPLICAOF", "NO", "ONE")
        assert append(store, "b").last == 2
        assert store.client.client_id() != pid
    finally:
        store.close()
        server.kill()


def test_readers_leave_a_server_that_became_a_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on answering reads, with what it had."""
    former = servers.Server(tmp_path / "one", ["repl-diskless-sync-delay 0"])
    present = servers.Server(tmp_path / "two")
    writing = opened(f"redis://{former.address}", "c", timeout=0.5)
    reading = opened(f"redis://{former.address}", "c", timeout=0.5)
    try:
        append(writing, "a")
        for store in (writing, reading):
            assert store.follower.catch_up().offset == 1
        assert reading.client.hget(reading.keys.meta, keys.HEAD) == b"1"
        present.ask("REPLICAOF", "127.0.0.1", str(former.port))
        servers.eventually(partial(linked, present), "the replica has everything")
        present.ask("REPLICAOF", "NO", "ONE")
        reading.follower.start()
        monkeypatch.setattr(discovery.Fixed, "find", lambda _: ("127.0.0.1", present.port))
        former.ask("REPLICAOF", "127.0.0.1", str(child_processes.free_port()))
        assert append_until_done(writing, "b").last == 2
        assert writing.follower.catch_up().offset == 2
        servers.eventually(partial(reads, reading, 2), "the reader has left")
        reading.durability.problem()  # asked for readiness, it may see the role of the former server
        assert reading.client.hget(reading.keys.meta, keys.HEAD) == b"2"
    finally:
        for store in (writing, reading):
            store.close()
        for server in (former, present):
            server.kill()


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

    def ask(self, address: urls.Address) -> dict[str, str]:
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
    sentinels = _Notifying(urls.parse(f"redis+sentinel://{','.join(hosts)}/m"), 1.0)
    sentinels.answers = dict(zip(hosts, answers, strict=True))
    for _ in range(3):
        if found:
            assert sentinels.find() == (found, 1)
        else:
            with pytest.raises(redis.ConnectionError, match="are needed"):
                sentinels.find()


class _Misled(discovery.Sentinels):
    """Connected to a former master."""

    where: urls.Address = ("", 0)

    def find(self) -> urls.Address:
        return self.where


def test_a_replica_is_not_taken_for_the_master(watched: servers.Watched) -> None:
    finder = _Misled(urls.parse(watched.url), 1.0)
    finder.where = ("127.0.0.1", watched.replica.port)
    connection: discovery.Connected = discovery.discovering(finder, tls=False)()
    with pytest.raises(redis.ConnectionError, match="not the master"):
        connection.send_command("PING")


class _Divided(discovery.Sentinels):
    """The first sentinel has not learned of the failover."""

    def ask(self, address: urls.Address) -> Mapping[str, str]:
        behind = address == self.addresses[0]
        return {"config-epoch": "9" if behind else "10", "ip": "old" if behind else "new", "port": "1"}


def test_the_sentinel_with_the_latest_failover_decides(watched: servers.Watched) -> None:
    assert _Divided(urls.parse(watched.url), 1.0).find() == ("new", 1)


def test_the_doctor_counts_the_sentinels(watched: servers.Watched) -> None:
    store = opened(watched.url, "doctored")
    store.close()
    found = examined(watched.url, "doctored")
    assert (found["sentinels"].grade, found["replicas"].grade) == ("good", "good")
    assert "3 of 3 answer" in found["sentinels"].found
    first, second, third = (sentinel.address for sentinel in watched.sentinels)
    closed = f"127.0.0.1:{child_processes.free_port()}"
    assert examined(watched.url.replace(third, closed), "doctored")["sentinels"].grade == "poor"
    lonely = watched.url.replace(third, closed).replace(first, f"127.0.0.1:{child_processes.free_port()}")
    assert second in lonely
    with pytest.raises(errors.StoreAway, match="1 of 3 sentinels report"):
        examined(lonely, "doctored")
    few = examined(f"redis+sentinel://{first},{second}/{servers.MASTER}", "doctored")["sentinels"]
    assert (few.grade, "three" in few.run) == ("poor", True)


def test_the_doctor_misses_the_users_of_the_roles(watched: servers.Watched) -> None:
    found = examined(watched.url, "roles")
    assert found["users of roles"].grade == "poor"
    assert "topolog doctor users" in found["users of roles"].run


def examined(url: str, cluster: str) -> dict[str, checks.Finding]:
    options = settings.Store(url=url, socket_timeout=1.0)
    return {one.subject: one for one in doctor.examine(options, declared.names(cluster))}


# -- Redis Cluster -------------------------------------------------------------------------


def names_on_every_node(sharded: servers.Sharded) -> dict[int, str]:
    """Port of a node -> a Kubernetes cluster whose keys are there."""
    found: dict[int, str] = {}
    for number in range(100):
        owner = discovery.SlotOwner(urls.parse(sharded.url), f"topolog:{{k{number}}}:", 1.0)
        found.setdefault(owner.find()[1], f"k{number}")
        if len(found) == len(sharded.nodes):
            break
    return found


def test_many_clusters_share_a_redis_cluster(sharded: servers.Sharded) -> None:
    homes = names_on_every_node(sharded)
    assert set(homes) == {node.port for node in sharded.nodes}
    by_port = {port: opened(sharded.url, name) for port, name in homes.items()}
    for number, store in enumerate(by_port.values(), 1):
        assert append(store, *(f"p{place}" for place in range(number))).last == number
    for number, (port, store) in enumerate(by_port.items(), 1):
        assert len(store.follower.catch_up().pods) == number
        with redis.Redis(port=port) as node:
            assert node.hget(store.keys.meta, keys.HEAD) == str(number).encode()
            # Functions do not travel with slots: every node has them.
            assert node.function_list(library=runner.library_name(schemas.library()))
        assert not view_oracle.differences(store)
        store.close()


def test_a_slot_that_moves_takes_its_writers_along(sharded: servers.Sharded) -> None:
    name = f"m{secrets.token_hex(4)}"
    store = opened(sharded.url, name)
    store.start()
    append(store, "a")
    sharded.move(store.keys.prefix)
    assert append_until_done(store, "b").last == 2
    servers.eventually(lambda: store.follower.snapshot.offset == 2, "the follower came along")
    assert [entry.offset for entry in store.log.read(0)] == [1, 2]
    store.close()


def names_on_one_node(sharded: servers.Sharded) -> tuple[servers.Server, list[str]]:
    """A node, and two clusters whose keys are there, in slots of their own."""
    node, names = sharded.nodes[0], list[str]()
    while len(names) < 2:
        name = f"s{secrets.token_hex(4)}"
        owner = discovery.SlotOwner(urls.parse(sharded.url), f"topolog:{{{name}}}:", 1.0)
        if owner.find()[1] == node.port:
            names.append(name)
    return node, names


def test_a_node_that_dies_is_away_until_it_is_back(sharded: servers.Sharded) -> None:
    """It has the logs of two clusters. A release that misloads its file is known, and its loss reported."""
    node, names = names_on_one_node(sharded)
    opened_stores = [opened(sharded.url, name, timeout=0.5) for name in names]
    # While the disk is slow it would answer before it has written.
    node.ask("CONFIG", "SET", "appendfsync", "always")
    for number in range(1, 4):
        for store in opened_stores:
            assert append(store, f"p{number}").last == number
    misloads = examined(sharded.url, names[0])["aof loading"].loses
    node.kill()
    with pytest.raises(errors.StoreAway):
        append(opened_stores[0], "y")
    node.start()
    survived = [survives(store) for store in opened_stores]
    assert all(survived) is not misloads
    for store in opened_stores:
        store.close()


def survives(store: stores.Store) -> bool:
    """Whether the three entries are there and appends follow them; otherwise the loss is reported."""
    try:
        last = append_until_done(store, "z").last
    except (errors.Rewound, errors.SchemaMismatch):
        return False
    assert last in (4, 5)
    assert [entry.offset for entry in store.log.read(0)] == list(range(1, last + 1))
    return True


def test_the_doctor_checks_every_node(sharded: servers.Sharded) -> None:
    store = opened(sharded.url, "doctored")
    store.close()
    found = examined(sharded.url, "doctored")
    assert {found[subject].grade for subject in ("mode", "nodes", "functions", "schema")} == {"good"}
    # A slot may move to a node that does not have the functions.
    sharded.nodes[1].ask("FUNCTION", "FLUSH")
    assert examined(sharded.url, "doctored")["functions"].found == "missing"
    with schemas.connect(settings.Store(url=sharded.url), store.keys) as client:
        assert schemas.migrate(client, store.keys, declared.SCHEMA).ready
    assert examined(sharded.url, "doctored")["functions"].grade == "good"
    # Asked as one server it would answer only for some of the keys.
    one = f"redis://{sharded.nodes[0].address}"
    with connections.connect(one) as client:
        assert checks.mode(readiness.facts(client)).grade == "bad"


def test_the_doctor_finds_a_redis_cluster_of_too_few_masters(tmp_path: Path) -> None:
    port = f"cluster-port {child_processes.free_port()}"
    node = servers.Server(tmp_path, ["cluster-enabled yes", "appendonly yes", port])
    try:
        node.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        servers.eventually(lambda: "cluster_state:ok" in str(node.ask("CLUSTER", "INFO")), "it serves")
        found = examined(f"redis+cluster://{node.address}", "alone")["nodes"]
    finally:
        node.kill()
    assert (found.grade, found.found) == ("poor", "1 with slots")
    assert "add-node" in found.run


def test_epochs_are_adopted_in_a_redis_cluster_too(sharded: servers.Sharded) -> None:
    store = opened(sharded.url, "adopted")
    environ = {"TOPOLOG_STORE_URL": sharded.url, "TOPOLOG_CLUSTER": "adopted"}
    done = testing.CliRunner().invoke(cli.topolog, ["adopt", "--yes", "--by", "me"], env=environ)
    assert done.exit_code == 0, done.output
    assert store.log.state().epoch
    store.close()


def test_a_redis_cluster_needs_the_keys_of_one_cluster(sharded: servers.Sharded) -> None:
    with pytest.raises(errors.StoreError, match="name the cluster"):
        connections.connect(sharded.url)


# -- URLs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "kind", "addresses", "master", "tls"),
    [
        ("redis://h", "", (("h", 6379),), "", False),
        ("rediss://u:p@h:1/2", "", (("h", 1),), "", True),
        ("redis://[::1]:7", "", (("::1", 7),), "", False),
        ("redis+sentinel://a,b:2,[::1]/m", "sentinel", (("a", 26379), ("b", 2), ("::1", 26379)), "m", False),
        ("rediss+sentinel://u:p@a/m?db=3", "sentinel", (("a", 26379),), "m", True),
        ("redis+cluster://a,b", "cluster", (("a", 6379), ("b", 6379)), "", False),
        ("rediss+cluster://:p@a:1", "cluster", (("a", 1),), "", True),
    ],
)
def test_a_url_is_parsed(
    url: str, kind: str, addresses: tuple[urls.Address, ...], master: str, tls: bool
) -> None:
    target = urls.parse(url)
    assert (target.kind, target.addresses, target.master, target.tls) == (kind, addresses, master, tls)
    # The settings let it through as well.
    assert settings.load(None, {"TOPOLOG_STORE_URL": url}).store.url == url


def test_sentinels_are_shown_their_own_credentials() -> None:
    target = urls.parse("rediss+sentinel://u:p%40@a/m?sentinel_password=s&ssl_ca_certs=f&db=2")
    assert target.options == {"username": "u", "password": "p@", "ssl_ca_certs": "f", "db": 2}
    assert target.sentinel_options == {"password": "s", "ssl_ca_certs": "f"}


@pytest.mark.parametrize(
    "url",
    [
        "http://secret@h",
        "redis://secret@h,i",
        "redis://secret@h:99999",
        "redis+sentinel://secret@a,b",
        "redis+sentinel://secret@a/b/c",
        "redis+cluster://secret@a/1",
        "redis+cluster://secret@a,,b",
        "redis://secret@h?db=x",
        "redis+sentinel://:secret@/m@x/",
    ],
)
def test_an_invalid_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(errors.StoreError, match=r"store\.url") as refused:
        urls.parse(url)
    assert "secret" not in str(refused.value)
