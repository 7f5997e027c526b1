"""The API of one process on a real store."""

import secrets
from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support.extender import api_worlds


@pytest.fixture
def process(store_server: embedded.Server, cluster: str) -> Iterator[api_worlds.Process]:
    """Starts processes on a cluster for this test only."""
    with api_worlds.processes(store_server, cluster) as start:
        yield start


@pytest.fixture
def world(process: api_worlds.Process) -> api_worlds.World:
    """A world that the test may change."""
    return api_worlds.filled(process())


@pytest.fixture(scope="module")
def still(store_server: embedded.Server) -> Iterator[api_worlds.World]:
    """A world that the tests of a module only read."""
    with api_worlds.processes(store_server, f"still{secrets.token_hex(4)}") as start:
        yield api_worlds.filled(start())
