"""A cluster, and a reflector of its pods."""

from collections.abc import Iterator

import pytest

from app.kube.client import clients
from app.simulation.apiserver import apiservers
from tests.support.kube import readings


@pytest.fixture
def cluster(server: apiservers.ApiServer, client: clients.Client) -> readings.Cluster:
    return readings.Cluster(server, client)


@pytest.fixture
def reading(client: clients.Client) -> Iterator[readings.Reading]:
    made = readings.Reading(client)
    yield made
    made.reflector.stop()
