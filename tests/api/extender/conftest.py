"""An empty cluster for each test that uses one."""

from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support.extender import replicas


@pytest.fixture
def shop(store_server: embedded.Server, cluster: str) -> Iterator[replicas.Cluster]:
    """A log with the first lists, and an API server."""
    with replicas.cluster(store_server.url, cluster) as made:
        made.see()
        yield made
