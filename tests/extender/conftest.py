"""One stage for all the tests here; each has its own namespace and nodes on it."""

import json
import pathlib
import secrets
from collections.abc import Iterator

import pytest

from app.store.server import connections
from tests.support.extender import stages


@pytest.fixture(scope="package")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stages.Stage]:
    """Not for the session: its processes take CPU even without work."""
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


@pytest.fixture
def unharmed(stage: stages.Stage, own: str) -> Iterator[None]:
    """For any input: nothing is appended, no internal fault, the same processes, no forged log line."""
    head, pids = stage.seen().offset, [one.process.pid for one in stage.replicas]
    faults = stages.counted_faults(stage)
    marks = [one.process.log.stat().st_size for one in stage.replicas]
    yield
    assert stage.seen().offset == head
    assert [one.process.pid for one in stage.replicas if one.process.running] == pids
    assert stages.counted_faults(stage) == faults
    for one, mark in zip(stage.replicas, marks, strict=True):
        with one.process.log.open("rb") as log:
            log.seek(mark)
            for line in log.read().splitlines():
                assert line.startswith(b"{"), line
                assert json.loads(line).get("level") != "error"
    keys = [connections.text(key) for key in stage.store.client.keys("*")]
    assert all(key.startswith("topolog:{stage}:") and key.isprintable() for key in keys)
