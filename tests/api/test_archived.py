"""Moments that were trimmed from the log: from the archive, or 410 with the oldest offset."""

import pathlib
from collections.abc import Iterator
from unittest import mock

import pytest
import structlog

from app import settings
from app.store import schemas, stores
from app.store.server import connections, embedded
from app.verbs.questions.shadows import shadow_comparison
from tests.support import declared
from tests.support.extender import api_worlds, bundled
from tests.support.extender.error_shape import Json, assert_problem, body, items
from tests.support.extender.questions import ask
from workers.compactor import compactors

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


def opened(server: embedded.Server, cluster: str, archive: str) -> stores.Store:
    return stores.open_store(
        settings.Store(url=server.url),
        schema=declared.SCHEMA,
        cluster=cluster,
        indexed=api_worlds.plugins_of_the_seeds().indexed(),
        archive=archive,
    )


@pytest.fixture(params=["archive", "none"])
def archive(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """The directory of the archive, or empty."""
    return str(tmp_path) if request.param == "archive" else ""


@pytest.fixture
def world(store_server: embedded.Server, cluster: str, archive: str) -> Iterator[api_worlds.World]:
    """A cluster with a history, which ``compacted`` trims."""
    client = connections.connect(store_server.url)
    schemas.migrate(client, declared.names(cluster), declared.SCHEMA)
    client.close()
    store = opened(store_server, cluster, archive)
    store.decisions.start()
    made = api_worlds.world(store)
    made.append(*api_worlds.history())
    yield made
    store.close()


def compacted(world: api_worlds.World, server: embedded.Server, archive: str) -> api_worlds.World:
    """Trim the whole history; the API of a process that starts after that."""
    world.store.client.delete(world.store.keys.readers)
    other = opened(server, world.store.keys.cluster, archive)
    compactors.Compactor(other, settings.Compaction(events=1, keep=0, archive=archive)).run_once()
    assert world.store.log.oldest() == world.store.follower.snapshot.offset
    return api_worlds.world(other)


def test_every_get_works_at_a_moment_before_the_log(
    world: api_worlds.World, store_server: embedded.Server, archive: str
) -> None:
    then = world.store.follower.catch_up().offset
    world.append(api_worlds.node("later"), api_worlds.pod_seen("web-1", "later"))
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
            assert_problem(response, 410, "PositionTrimmed", f"the oldest offset is {oldest}")
    assert len(items(after.client.get("/apis/v1/nodes"))) == 7
    after.store.close()


def test_a_decision_of_any_age_is_explained_as_it_was(
    world: api_worlds.World, store_server: embedded.Server, archive: str
) -> None:
    (identity,) = api_worlds.decide(world, api_worlds.pod("web-3"))
    path = f"/apis/v1/pods/shop/web-3/explain?decision={identity}"
    first = body(world.client.get(path))
    world.append(api_worlds.policy(host=9), api_worlds.node("later", role="host"))
    world.store.follower.catch_up()
    after = compacted(world, store_server, archive)
    response = after.client.get(path)
    if archive:
        again = body(response)
        assert {**again, "asOf": 0, "age": 0} == {**first, "asOf": 0, "age": 0}
    else:
        assert_problem(response, 410, "PositionTrimmed")
    after.store.close()


def test_a_bundle_reaches_as_far_as_the_archive(
    world: api_worlds.World, store_server: embedded.Server, archive: str
) -> None:
    last = world.store.follower.catch_up().offset
    earlier = {path: body(world.client.get(f"/apis/v1/{path}?at=9")) for path in PATHS[:4]}
    restarted = compacted(world, store_server, archive)
    try:
        reply = restarted.client.get("/apis/v1/export?from=3")
        if not archive:
            assert_problem(reply, 410, "PositionTrimmed")
            assert str(last) in str(body(reply)["message"])
            return
        with bundled.opened(store_server, bytes(reply.data)) as shown:
            assert shown.store.follower.catch_up().offset == last
            for path, expected in earlier.items():
                found = body(shown.client.get(f"/apis/v1/{path}?at=9"))
                found.pop("metadata", None)
                expected.pop("metadata", None)
                assert found == expected
    finally:
        restarted.store.close()


SCALED = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": 0}}]


def put(world: api_worlds.World, name: str) -> int:
    """Set a shadow; returns the offset of its event."""
    return int(body(world.client.put(f"/apis/v1/shadows/{name}", json={"overrides": SCALED}))["since"])


def differences(world: api_worlds.World, name: str) -> Json:
    return body(world.client.get(f"/apis/v1/shadows/{name}"))["differences"]


@pytest.mark.parametrize("archive", ["archive"], indirect=True)
def test_a_shadow_whose_event_cannot_be_read_keeps_no_other_from_being_compared(
    world: api_worlds.World, store_server: embedded.Server, archive: str
) -> None:
    """It shows why it is not compared, with one line in the log, until the archive answers again."""
    since = put(world, "old")
    api_worlds.decide(world, api_worlds.pod("web-3"))
    world.append(api_worlds.node("later", role="host"))
    world.store.follower.catch_up()
    after = compacted(world, store_server, archive)
    after.store.decisions.start()
    put(after, "recent")
    api_worlds.decide(after, api_worlds.pod("web-4"))
    folder = pathlib.Path(archive, after.store.keys.cluster)
    aside = folder.rename(f"{folder}.aside")
    folder.write_text("no folder")
    restarted = opened(store_server, after.store.keys.cluster, archive)
    shown = api_worlds.world(restarted)
    restarted.follower.catch_up()
    with (
        mock.patch.object(shadow_comparison, "_RETRIED", 0.0),
        structlog.testing.capture_logs() as lines,
    ):
        for _ in range(3):
            shown.shadows.step()
        recent = differences(shown, "recent")
        assert (recent["examined"], recent["problem"]) == (1, None)
        assert differences(shown, "old")["examined"] == 0
        assert "the archive cannot be listed" in differences(shown, "old")["problem"]
        assert [(one["log_level"], one["shadow"]) for one in lines] == [("warning", "old")]
        folder.unlink()
        aside.rename(folder)
        while shown.shadows.step():
            pass
    found = differences(shown, "old")
    replayed = ask(shown, "replay", overrides=SCALED, **{"from": str(since)}, compare="scores", budget=20.0)
    assert found["problem"] is None
    assert found["examined"] == replayed["examined"] == 2
    assert found["classes"] == replayed["classes"]
    after.store.close()
    restarted.close()
