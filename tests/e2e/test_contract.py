"""The contract of the API server, kept by the real one: what the simulated one is held to is true."""

import pathlib
from collections.abc import Iterator

import pytest

from app.kube import accessing, clients
from tests.e2e import clusters
from tests.kube import contract

pytestmark = pytest.mark.e2e

NAMESPACE = "contract"


@pytest.fixture(scope="module")
def quiet(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A control plane without controllers and kubelet: nobody but the tests touches the pods."""
    with clusters.Cluster(binary) as cluster:
        cluster.add_namespace(NAMESPACE)
        yield cluster


class TestRealApiServer(contract.ApiServerContract):
    @pytest.fixture
    def client(self, quiet: clusters.Cluster) -> Iterator[clients.Client]:
        made = clients.Client(accessing.find(str(quiet.kubeconfig())))
        yield made
        made.close()

    @pytest.fixture
    def namespace(self) -> str:
        return NAMESPACE
