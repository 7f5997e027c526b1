"""A world whose store can lose data."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workers import clusters, lossy_worlds


@pytest.fixture
def own(tmp_path: Path, cluster_side: clusters.Cluster) -> Iterator[lossy_worlds.World]:
    made = lossy_worlds.World(tmp_path, cluster_side)
    yield made
    made.close()
