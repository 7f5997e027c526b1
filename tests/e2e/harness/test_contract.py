"""The contract of tests/simulation, run against the real API server."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from app.kube import errors
from app.kube.client import clients, credentials
from tests.e2e import control_plane_builds
from tests.support import polling
from tests.support.e2e import clusters, installations
from tests.support.kube import api_server_contract
from tests.support.kube.contract import statuses

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def bare(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster without other clients; history older than a second is compacted."""
    with clusters.Cluster(binary, flags=["--etcd-compaction-interval=1s"]) as cluster:
        prepare(cluster)
        yield cluster


@pytest.fixture(scope="module")
def former(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster whose API server behaves as one of the oldest supported version."""
    with clusters.Cluster(binary, flags=["--emulated-version=kube=1.34"]) as cluster:
        prepare(cluster)
        yield cluster


def prepare(cluster: clusters.Cluster) -> None:
    """Make the namespace and the kinds of the contract."""
    cluster.add_namespace("contract")
    cluster.kubectl("apply", "-k", installations.DEPLOY / "crds")
    cluster.apply(statuses.THING)
    for name in ("workloadpolicies.kosmos.io", statuses.THING["metadata"]["name"]):
        cluster.await_done("wait", "--for=condition=established", f"crd/{name}")


class TestRealApiServer(api_server_contract.ApiServerContract):
    cluster: clusters.Cluster

    @property
    def labels_are_merged(self) -> bool:
        return control_plane_builds.minor() >= (1, 35)

    @pytest.fixture
    def client(self, bare: clusters.Cluster) -> Iterator[clients.Client]:
        self.cluster = bare
        made = clients.Client(credentials.find(str(bare.kubeconfig())))
        yield made
        made.close()

    @pytest.fixture
    def namespace(self) -> str:
        return "contract"

    def forget(self, client: clients.Client) -> bool:
        """Restart the API server to clear its watch cache, and wait for etcd's own compaction."""
        path = "/api/v1/namespaces/contract/pods"
        for _ in range(2):
            self.made(client, path)
        token = json.loads(client.get(path, {"limit": "1"}))["metadata"]["continue"]
        self.cluster.api_server.stop()
        self.cluster.api_server.start()
        self.cluster.await_api_server()

        def forgotten() -> bool:
            self.made(client, path)  # etcd compacts only after further changes
            try:
                client.get(path, {"limit": "1", "continue": token})
            except errors.Expired:
                return True
            return False

        polling.eventually(forgotten, "the page is compacted", within=30, every=0.5)
        return True


class TestRealApiServerOf134(api_server_contract.ApiServerContract):
    @property
    def labels_are_merged(self) -> bool:
        return False

    @pytest.fixture
    def client(self, former: clusters.Cluster) -> Iterator[clients.Client]:
        made = clients.Client(credentials.find(str(former.kubeconfig())))
        yield made
        made.close()

    @pytest.fixture
    def namespace(self) -> str:
        return "contract"
