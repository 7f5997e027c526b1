"""The API of one process on a real store."""

import contextlib
import secrets
from collections.abc import Callable, Iterator

import pytest

from app import settings
from app.store import connecting, embedded, keys, opening
from tests.api import worlds

Process = Callable[[], opening.Store]


@contextlib.contextmanager
def processes(server: embedded.Server, cluster: str) -> Iterator[Process]:
    """Opens the cluster's store as often as there are processes; their threads run."""
    client = connecting.connect(server.url)
    opening.migrate(client, keys.Keys(cluster))
    client.close()
    with contextlib.ExitStack() as opened:

        def start() -> opening.Store:
            one = opening.open_store(
                settings.Store(url=server.url),
                cluster=cluster,
                indexed=worlds.plugins_of_the_seeds().indexed(),
            )
            opened.callback(one.close)
            one.start()
            return one

        yield start


def filled(store: opening.Store) -> worlds.World:
    """One process, and the small cluster of worlds.history."""
    made = worlds.world(store)
    made.append(*worlds.history())
    return made


@pytest.fixture
def process(store_server: embedded.Server, cluster: str) -> Iterator[Process]:
    """Starts processes on one cluster of this test's own."""
    with processes(store_server, cluster) as start:
        yield start


@pytest.fixture
def world(process: Process) -> worlds.World:
    """A world that the test may change."""
    return filled(process())


@pytest.fixture(scope="module")
def still(store_server: embedded.Server) -> Iterator[worlds.World]:
    """A world that the tests of a module only look at."""
    with processes(store_server, f"still{secrets.token_hex(4)}") as start:
        yield filled(start())
