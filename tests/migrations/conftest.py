"""A store of the first schema, and stores that are opened once it is migrated."""

from collections.abc import Callable, Iterator

import pytest
import redis

from app import settings
from app.store import keys, stores
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.store import past_stores


@pytest.fixture
def names(cluster: str) -> keys.Keys:
    return keys.Keys(cluster)


@pytest.fixture
def client(store_server: embedded.Server, names: keys.Keys) -> Iterator[redis.Redis]:
    """Of a server with a store of schema 1."""
    made = connections.connect(store_server.url)
    past_stores.restore(made, names)
    yield made
    made.close()


@pytest.fixture
def opened(
    client: redis.Redis, store_server: embedded.Server, names: keys.Keys
) -> Iterator[Callable[[], stores.Store]]:
    made: list[stores.Store] = []

    def open_store() -> stores.Store:
        made.append(
            stores.open_store(
                settings.Store(url=store_server.url),
                schema=declared.FIRST,
                cluster=names.cluster,
            )
        )
        return made[-1]

    yield open_store
    for store in made:
        store.close()
