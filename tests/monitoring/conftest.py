"""One healthy installation for all the tests here that do not break it."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support.monitoring import installations


@pytest.fixture(scope="package")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[installations.Installation]:
    """Not for the session: six processes without work take two seconds of CPU in 100."""
    folder: pathlib.Path = tmp_path_factory.mktemp("installation")
    with installations.running(folder, view=True) as made:
        yield made
