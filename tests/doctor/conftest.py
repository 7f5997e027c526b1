"""Installations with nothing wrong: one for all tests that do not break it, one for each that does."""

import pathlib
from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support.doctor import clusters, sound_clusters
from tests.support.monitoring import installations


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[installations.Installation]:
    """The six processes on a store and a simulated API server."""
    folder: pathlib.Path = tmp_path_factory.mktemp("installation")
    with installations.running(folder, view=True) as made:
        yield made


@pytest.fixture
def cluster(tmp_path: pathlib.Path, store_server: embedded.Server) -> Iterator[clusters.Cluster]:
    """What the API server and the store of an installation show, to be changed; other modules have theirs."""
    with sound_clusters.running(tmp_path, store_server.url) as made:
        yield made
