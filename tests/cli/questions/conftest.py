"""An API on a real store behind real HTTP, for the commands that ask questions."""

from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support.extender import api_worlds, http_servers, questions


@pytest.fixture
def six(store_server: embedded.Server, cluster: str) -> Iterator[api_worlds.World]:
    """F6: four pods are placed, two wait."""
    with api_worlds.processes(store_server, cluster) as start:
        made = api_worlds.world(start())
        made.append(*questions.f6())
        yield made


@pytest.fixture
def run(six: api_worlds.World) -> Iterator[questions.Run]:
    """Runs commands against F6."""
    with http_servers.serving_http(six.app) as url:
        yield questions.Run(url, six)
