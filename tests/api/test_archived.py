"""Moments that the log has forgotten: out of the archive, or 410 with the oldest that is left."""

import pathlib
from collections.abc import Iterator

import pytest

from app import settings
from app.store import connecting, embedded, keys, opening
from tests.api import worlds
from tests.api.problems import assert_problem, body, items
from tests.api.test_explanations import decide
from workers import compacting

PATHS = [
    "nodes",
    "nodes/host-1",
    "pods/shop/web-1",
    "pending",
    "topology",
    "flags",
    "events",
    "plugins/WorkloadPolicy/policies",
    "plugins/WorkloadPolicy/policies/shop/spread",
    "plugins/JobAffinity/groups",
    "plugins/NodeLabelPriority/nodes",
]


def opened(server: embedded.Server, cluster: str, archive: str) -> opening.Store:
    return opening.open_store(
        settings.Store(url=server.url),
        cluster=cluster,
        indexed=worlds.plugins_of_the_seeds().indexed(),
        archive=archive,
    )


@pytest.fixture(params=["archive", "none"])
def archive(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """The directory of the archive, or empty."""
    return str(tmp_path) if request.param == "archive" else ""


@pytest.fixture
def world(store_server: embedded.Server, cluster: str, archive: str) -> Iterator[worlds.World]:
    """A cluster with a past; ``compacted`` forgets it."""
    client = connecting.connect(store_server.url)
    opening.migrate(client, keys.Keys(cluster))
    client.close()
    store = opened(store_server, cluster, archive)
    store.decisions.start()
    made = worlds.world(store)
    made.append(*worlds.history())
    yield made
    store.close()


def compacted(world: worlds.World, server: embedded.Server, archive: str) -> worlds.World:
    """Trim all that was; the API of a process that starts after that."""
    world.store.client.delete(world.store.keys.readers)
    other = opened(server, world.store.keys.cluster, archive)
    compacting.Compactor(other, settings.Compaction(events=1, keep=0, archive=archive)).turn()
    assert world.store.log.oldest() == world.store.follower.snapshot.offset
    return worlds.world(other)


def test_every_get_works_at_a_moment_before_the_log(
    world: worlds.World, store_server: embedded.Server, archive: str
) -> None:
    then = world.store.follower.catch_up().offset
    world.append(worlds.node("later"), worlds.pod_seen("web-1", "later"))
    before = {path: world.client.get(f"/apis/v1/{path}?at={then}").get_json() for path in PATHS}
    world.store.follower.catch_up()
    after = compacted(world, store_server, archive)
    for path in PATHS:
        response = after.client.get(f"/apis/v1/{path}?at={then}")
        if archive:
            assert response.status_code == 200, path
            assert response.get_json() | {"metadata": 0} == before[path] | {"metadata": 0}, path
        else:
            oldest = world.store.follower.snapshot.offset
            assert_problem(response, 410, "PositionTrimmed", f"the oldest one is {oldest}")
    assert len(items(after.client.get("/apis/v1/nodes"))) == 7
    after.store.close()


def test_a_decision_of_any_age_is_explained_as_it_was(
    world: worlds.World, store_server: embedded.Server, archive: str
) -> None:
    (identity,) = decide(world, worlds.pod("web-3"))
    path = f"/apis/v1/pods/shop/web-3/explain?decision={identity}"
    told = body(world.client.get(path))
    world.append(worlds.policy(host=9), worlds.node("later", role="host"))
    world.store.follower.catch_up()
    after = compacted(world, store_server, archive)
    response = after.client.get(path)
    if archive:
        again = body(response)
        assert {**again, "asOf": 0, "age": 0} == {**told, "asOf": 0, "age": 0}
    else:
        assert_problem(response, 410, "PositionTrimmed")
    after.store.close()
