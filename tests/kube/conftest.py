"""A simulated API server for each test, and a client of it."""

from collections.abc import Iterator

import pytest

from app.kube.client import clients
from app.simulation.apiserver import apiservers
from tests.support import declared
from tests.support.kube import plain_access


@pytest.fixture
def server() -> Iterator[apiservers.ApiServer]:
    with apiservers.ApiServer(declared.SCHEMA, bookmarks=0.05) as started:
        yield started


@pytest.fixture
def client(server: apiservers.ApiServer) -> Iterator[clients.Client]:
    made = clients.Client(plain_access.of(server.url))
    yield made
    made.close()
