"""A store in Redis Cluster: slots that move, nodes that die, and what the doctor finds."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click import testing

from app import cli, settings
from app.store import errors, keys, schemas, stores
from app.store.health import checks, readiness
from app.store.server import connections, discovery, urls
from migrations import runner
from tests.support import child_processes, declared
from tests.support.store import deployments, servers, view_oracle


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Sharded]:
    made = servers.Sharded(tmp_path_factory.mktemp("sharded"))
    yield made
    made.close()


def names_on_every_node(sharded: servers.Sharded) -> dict[int, str]:
    """Port of a node -> a Kubernetes cluster whose keys are there."""
    found: dict[int, str] = {}
    for number in range(100):
        owner = discovery.SlotOwner(urls.parse(sharded.url), f"topolog:{{k{number}}}:")
        found.setdefault(owner.find(1.0)[1], f"k{number}")
        if len(found) == len(sharded.nodes):
            break
    return found


def test_many_clusters_share_a_redis_cluster(sharded: servers.Sharded) -> None:
    homes = names_on_every_node(sharded)
    assert set(homes) == {node.port for node in sharded.nodes}
    by_port = {port: deployments.opened(sharded.url, name) for port, name in homes.items()}
    for number, store in enumerate(by_port.values(), 1):
        assert deployments.append(store, *(f"p{place}" for place in range(number))).last == number
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
    store = deployments.opened(sharded.url, name)
    store.start()
    deployments.append(store, "a")
    sharded.move(store.keys.prefix)
    assert deployments.append_until_done(store, "b").last == 2
    servers.eventually(lambda: store.follower.snapshot.offset == 2, "the follower came along")
    assert [entry.offset for entry in store.log.read(0)] == [1, 2]
    store.close()


def names_on_one_node(sharded: servers.Sharded) -> tuple[servers.Server, list[str]]:
    """A node, and two clusters whose keys are there, in slots of their own."""
    node, names = sharded.nodes[0], list[str]()
    while len(names) < 2:
        name = f"s{secrets.token_hex(4)}"
        owner = discovery.SlotOwner(urls.parse(sharded.url), f"topolog:{{{name}}}:")
        if owner.find(1.0)[1] == node.port:
            names.append(name)
    return node, names


def test_a_node_that_dies_is_away_until_it_is_back(sharded: servers.Sharded) -> None:
    """It has the logs of two clusters. A release that misloads its file is known, and its loss reported."""
    node, names = names_on_one_node(sharded)
    opened_stores = [deployments.opened(sharded.url, name, timeout=0.5) for name in names]
    # While the disk is slow it would answer before it has written.
    node.ask("CONFIG", "SET", "appendfsync", "always")
    for number in range(1, 4):
        for store in opened_stores:
            assert deployments.append(store, f"p{number}").last == number
    misloads = deployments.examined(sharded.url, names[0])["aof loading"].loses
    node.kill()
    with pytest.raises(errors.StoreAway):
        deployments.append(opened_stores[0], "y")
    node.start()
    survived = [survives(store) for store in opened_stores]
    assert all(survived) is not misloads
    for store in opened_stores:
        store.close()


def survives(store: stores.Store) -> bool:
    """Whether the three entries are there and appends follow them; otherwise the loss is reported."""
    try:
        last = deployments.append_until_done(store, "z").last
    except (errors.Rewound, errors.SchemaMismatch):
        return False
    assert last in (4, 5)
    assert [entry.offset for entry in store.log.read(0)] == list(range(1, last + 1))
    return True


def test_the_doctor_checks_every_node(sharded: servers.Sharded) -> None:
    store = deployments.opened(sharded.url, "doctored")
    store.close()
    found = deployments.examined(sharded.url, "doctored")
    assert {found[subject].grade for subject in ("mode", "nodes", "functions", "schema")} == {"good"}
    # A slot may move to a node that does not have the functions.
    sharded.nodes[1].ask("FUNCTION", "FLUSH")
    assert deployments.examined(sharded.url, "doctored")["functions"].found == "missing"
    with schemas.connect(settings.Store(url=sharded.url), store.keys) as client:
        assert schemas.migrate(client, store.keys, declared.SCHEMA).ready
    assert deployments.examined(sharded.url, "doctored")["functions"].grade == "good"
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
        found = deployments.examined(f"redis+cluster://{node.address}", "alone")["nodes"]
    finally:
        node.kill()
    assert (found.grade, found.found) == ("poor", "1 with slots")
    assert "add-node" in found.run


def test_epochs_are_adopted_in_a_redis_cluster_too(sharded: servers.Sharded) -> None:
    store = deployments.opened(sharded.url, "adopted")
    environ = {"TOPOLOG_STORE_URL": sharded.url, "TOPOLOG_CLUSTER": "adopted"}
    done = testing.CliRunner().invoke(cli.topolog, ["adopt", "--yes", "--by", "me"], env=environ)
    assert done.exit_code == 0, done.output
    assert store.log.state().epoch
    store.close()


def test_a_redis_cluster_needs_the_keys_of_one_cluster(sharded: servers.Sharded) -> None:
    with pytest.raises(errors.StoreError, match="name the cluster"):
        connections.connect(sharded.url)
