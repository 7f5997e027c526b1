"""A simulated cluster, a real store, and a recorder between them."""

from collections.abc import Callable, Iterator

import pytest

from app import settings
from app.kube.client import clients, credentials
from app.simulation.apiserver import apiservers
from app.store import stores
from app.store.server import embedded
from tests.support import declared
from tests.support.workers import clusters, recordings


@pytest.fixture
def server() -> Iterator[apiservers.ApiServer]:
    with apiservers.ApiServer(declared.SCHEMA, bookmarks=0.2) as started:
        yield started


@pytest.fixture
def cluster_side(server: apiservers.ApiServer) -> Iterator[clusters.Cluster]:
    client = clients.Client(credentials.plain(server.url))
    yield clusters.Cluster(server, client)
    client.close()


@pytest.fixture
def recorded(
    store: stores.Store, cluster_side: clusters.Cluster
) -> Iterator[Callable[[], recordings.Recording]]:
    """Starts recorders, and stops them in the end."""
    started: list[recordings.Recording] = []

    def start() -> recordings.Recording:
        started.append(recordings.Recording(store, cluster_side))
        return started[-1]

    yield start
    for one in started:
        one.recorder.stop()
        one.thread.join(recordings.LIMIT)


@pytest.fixture
def again(
    store: stores.Store, store_server: embedded.Server, cluster: str
) -> Iterator[Callable[..., stores.Store]]:
    """Opens the same store once more, as another process would."""
    opened: list[stores.Store] = []

    def reopen(indexed: frozenset[str] = frozenset()) -> stores.Store:
        chosen = settings.Store(url=store_server.url)
        opened.append(stores.open_store(chosen, schema=declared.SCHEMA, cluster=cluster, indexed=indexed))
        return opened[-1]

    yield reopen
    for one in opened:
        one.close()
