"""A cluster for each test that uses one, on one shared server."""

from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support.extender import replicas


@pytest.fixture
def shop(store_server: embedded.Server, cluster: str) -> Iterator[replicas.Cluster]:
    """Two host nodes, two member nodes, capacity for one pod on the hosts and two on the members."""
    with replicas.cluster(store_server.url, cluster) as made:
        for name, role in (("h1", "host"), ("h2", "host"), ("m1", "member"), ("m2", "member")):
            made.node(name, role=role)
        made.policy({"host": 1, "member": 2})
        made.see()
        yield made
