"""A simulated API server of each test's own, and a client for it."""

from collections.abc import Iterator

import pytest

from app.kube import accessing, clients
from app.simulation import apiservers


@pytest.fixture
def server() -> Iterator[apiservers.ApiServer]:
    with apiservers.ApiServer(bookmarks=0.05) as started:
        yield started


@pytest.fixture
def client(server: apiservers.ApiServer) -> Iterator[clients.Client]:
    made = clients.Client(accessing.plain(server.url))
    yield made
    made.close()
