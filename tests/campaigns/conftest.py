"""A store of a campaign's own."""

from collections.abc import Iterator

import pytest

from app.store.server import embedded


@pytest.fixture(scope="module")
def own() -> Iterator[embedded.Server]:
    """A server that a simulation may empty."""
    server = embedded.Server()
    yield server
    server.stop()
