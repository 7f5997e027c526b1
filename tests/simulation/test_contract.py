"""The simulated API server keeps the contract that the real one keeps in tests/e2e."""

from collections.abc import Iterator

import pytest

from app.kube import accessing, clients
from app.simulation import apiservers
from tests.kube import contract


class TestSimulatedApiServer(contract.ApiServerContract):
    started: apiservers.ApiServer

    @pytest.fixture
    def server(self) -> Iterator[apiservers.ApiServer]:
        with apiservers.ApiServer(bookmarks=0.2) as started:
            yield started

    @pytest.fixture
    def client(self, server: apiservers.ApiServer) -> Iterator[clients.Client]:
        made = clients.Client(accessing.plain(server.url))
        self.started = server
        yield made
        made.close()

    @pytest.fixture
    def namespace(self) -> str:
        return "contract"

    def forget(self, client: clients.Client) -> bool:
        self.started.objects.compact("pods")
        return True
