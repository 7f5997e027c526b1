"""A simulated cluster, a real store, and a recorder or worker processes between them."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from app import settings
from app.kube.client import clients
from app.simulation.apiserver import apiservers
from app.store import stores
from app.store.server import embedded
from tests.support import declared
from tests.support.kube import plain_access
from tests.support.workers import clusters, recordings, schema_versions, worker_processes


@pytest.fixture
def server() -> Iterator[apiservers.ApiServer]:
    with apiservers.ApiServer(declared.SCHEMA, bookmarks=0.2) as started:
        yield started


@pytest.fixture
def cluster_side(server: apiservers.ApiServer) -> Iterator[clusters.Cluster]:
    client = clients.Client(plain_access.of(server.url))
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


@pytest.fixture
def opened(store_server: embedded.Server, cluster: str) -> Iterator[schema_versions.Opened]:
    """Opens one store as processes of several versions do."""
    with schema_versions.opening(store_server.url, cluster) as of:
        yield of


@pytest.fixture
def kubeconfig(cluster_side: clusters.Cluster, tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": cluster_side.server.url}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return path


@pytest.fixture
def start(
    store: stores.Store, store_server: embedded.Server, cluster: str, kubeconfig: pathlib.Path
) -> Iterator[worker_processes.Start]:
    """Starts a worker with settings by environment; ends it in the end."""
    started: list[subprocess.Popen[str]] = []

    def run(command: str, **changes: str) -> subprocess.Popen[str]:
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TOPOLOG_")},
            "PYTHONPATH": str(worker_processes.ROOT),
            "TOPOLOG_CLUSTER": cluster,
            "TOPOLOG_STORE_URL": store_server.url,
            "TOPOLOG_STORE_REQUIRE_DURABLE": "false",
            "TOPOLOG_KUBE_KUBECONFIG": str(kubeconfig),
            "TOPOLOG_SERVER_BIND": "127.0.0.1",
            **changes,
        }
        arguments = [sys.executable, "-m", "workers", command]
        process = subprocess.Popen(
            arguments, env={k: v for k, v in environ.items() if v}, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
