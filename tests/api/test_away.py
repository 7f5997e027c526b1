"""While the store is away, requests that need it are refused, and those about the process are answered."""

from collections.abc import Iterator

import pytest

from app import settings
from app.store import schemas, stores
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, assert_stamped


@pytest.fixture
def orphan() -> Iterator[api_worlds.World]:
    """A process that has followed its store until the store was killed."""
    server = embedded.Server()
    client = connections.connect(server.url)
    names = declared.names("orphan")
    schemas.migrate(client, names, declared.SCHEMA)
    client.close()
    store = stores.open_store(
        settings.Store(url=server.url, socket_timeout=1.0),
        schema=declared.SCHEMA,
        cluster="orphan",
        indexed=api_worlds.plugins_of_the_seeds().indexed(),
    )
    made = api_worlds.world(store)
    made.append(*api_worlds.history())
    store.follower.catch_up()
    server.kill()
    yield made
    store.close()
    server.stop()


def test_without_the_store_nothing_is_shown_as_the_present(orphan: api_worlds.World) -> None:
    for path in ("/apis/v1/nodes", "/apis/v1/pods/shop/web-1", "/apis/v1/events", "/debug/flags/s"):
        response = orphan.client.get(path)
        assert_problem(response, 503, "StoreAway")
        assert response.headers["Retry-After"] == "1"
    set_ = orphan.client.put("/debug/flags/s", data="100")
    assert_problem(set_, 503, "StoreAway")
    assert "s" not in orphan.store.follower.snapshot.flags


def test_without_the_store_the_process_still_shows_its_state(orphan: api_worlds.World) -> None:
    for path in ("/apis/v1/lag", "/apis/v1/settings", "/apis/v1/__services__", "/openapi.json", "/docs"):
        response = orphan.client.get(path)
        assert response.status_code == 200
        assert_stamped(response)
