"""A writer of statuses, and an evictor."""

import pytest

from tests.support.workers import clusters, evictors, status_writers


@pytest.fixture
def writing(cluster_side: clusters.Cluster) -> status_writers.Writing:
    cluster_side.policy("p", host=3)
    made = status_writers.Writing(cluster_side)
    made.observe("p")
    made.asked()
    return made


@pytest.fixture
def evicting(cluster_side: clusters.Cluster) -> evictors.Evicting:
    return evictors.Evicting(cluster_side)
