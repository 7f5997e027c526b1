"""A follower that runs, and a store whose server can be killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app import settings
from app.store import stores
from app.store.state import followers
from tests.support.store import embedded_stores


@pytest.fixture
def follower(store: stores.Store) -> Iterator[followers.Follower]:
    store.follower.start()
    yield store.follower
    store.follower.stop()


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[embedded_stores.EmbeddedStore]:
    """A store on a separate server with an append-only file."""
    with embedded_stores.opened(tmp_path, "own", settings.Store(socket_timeout=0.5)) as made:
        yield made
