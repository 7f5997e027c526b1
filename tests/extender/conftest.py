"""One stage for all the tests here; each has its own namespace and nodes on it."""

import pathlib
import secrets
from collections.abc import Iterator

import pytest

from tests.support.extender import stages


@pytest.fixture(scope="session")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stages.Stage]:
    folder: pathlib.Path = tmp_path_factory.mktemp("stage")
    with stages.raised(folder) as stage:
        yield stage


@pytest.fixture
def stage(raised: stages.Stage) -> stages.Stage:
    """The stage with everything running."""
    return raised


@pytest.fixture
def own() -> str:
    """A namespace for this test only, which is also the prefix of its node names."""
    return f"t{secrets.token_hex(4)}"
