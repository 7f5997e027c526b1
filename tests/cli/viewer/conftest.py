"""A small cluster in a real store, and a real process of ``topolog view`` on it."""

import secrets
from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support.browser import viewers
from tests.support.browser.seen_worlds import Seen
from tests.support.extender import api_worlds


@pytest.fixture(scope="module")
def seen(store_server: embedded.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """One for each module."""
    cluster = f"seen{secrets.token_hex(4)}"
    with api_worlds.processes(store_server, cluster) as start:
        world = api_worlds.filled(start())
        with viewers.running(store_server.url, cluster, tmp_path_factory.mktemp("seen")) as viewer:
            yield Seen(world, viewer)
