"""A simulated cluster on a store of its own; its processes run one step at a time."""

from collections.abc import Iterator

import pytest
from structlog import testing

from app.store.server import embedded
from tests.support.simulation import stepped_worlds, virtual_time


@pytest.fixture
def world(own: embedded.Server) -> Iterator[stepped_worlds.World]:
    made = stepped_worlds.World(own)
    with testing.capture_logs(), virtual_time.installed(made.clock):
        yield made
        made.close()
