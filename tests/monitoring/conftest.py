"""One healthy installation for all the tests here that do not break it."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.monitoring import installations


@pytest.fixture(scope="package")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[installations.Installation]:
    """Not for the session: six processes without work take two seconds of CPU in 100."""
    folder: pathlib.Path = tmp_path_factory.mktemp("installation")
    with installations.running(folder, view=True) as made:
        yield made


@pytest.fixture
def healthy(installed: installations.Installation) -> installations.Installation:
    """The same, after all of its processes report that they are ready, whatever happened before."""

    def ready() -> dict[str, float | None]:
        return {one: installed.value(one, "topolog_ready", process=one) for one in installed.processes}

    polling.eventually(lambda: set(ready().values()) == {1}, "all are ready", within=60.0, seen=ready)
    return installed
