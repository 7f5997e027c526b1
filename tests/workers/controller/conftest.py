"""A writer of statuses."""

import pytest

from tests.support.workers import clusters, status_writers


@pytest.fixture
def writing(cluster_side: clusters.Cluster) -> status_writers.Writing:
    cluster_side.policy("p", host=3)
    made = status_writers.Writing(cluster_side)
    made.observe("p")
    made.asked()
    return made
