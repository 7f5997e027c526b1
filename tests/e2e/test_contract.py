"""The real API server keeps the contract that the simulated one keeps in tests/simulation."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from app.kube import accessing, clients, errors
from tests.e2e import clusters, waiting
from tests.kube import contract

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def bare(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """Nobody else touches the pods here, and what is older than a second is compacted away."""
    with clusters.Cluster(binary, flags=["--etcd-compaction-interval=1s"]) as cluster:
        cluster.add_namespace("contract")
        yield cluster


class TestRealApiServer(contract.ApiServerContract):
    cluster: clusters.Cluster

    @pytest.fixture
    def client(self, bare: clusters.Cluster) -> Iterator[clients.Client]:
        self.cluster = bare
        made = clients.Client(accessing.find(str(bare.kubeconfig())))
        yield made
        made.close()

    @pytest.fixture
    def namespace(self) -> str:
        return "contract"

    def forget(self, client: clients.Client) -> bool:
        """etcd compacts by itself; the API server's own memory of changes ends with its process."""
        path = "/api/v1/namespaces/contract/pods"
        for _ in range(2):
            self.made(client, path)
        token = json.loads(client.get(path, {"limit": "1"}))["metadata"]["continue"]
        self.cluster.api_server.stop()
        self.cluster.api_server.start()
        self.cluster.await_api_server()

        def forgotten() -> bool:
            self.made(client, path)  # nothing is compacted where nothing happens
            try:
                client.get(path, {"limit": "1", "continue": token})
            except errors.Expired:
                return True
            return False

        waiting.eventually(forgotten, "the page is forgotten", within=30, every=0.5)
        return True
