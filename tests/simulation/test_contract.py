"""The simulated API server passes the same contract as the real one in tests/e2e."""

from collections.abc import Iterator

import pytest

from app.kube.client import clients
from app.simulation.apiserver import apiservers, objects
from tests.support import declared
from tests.support.kube import api_server_contract, plain_access
from tests.support.kube.contract import statuses


class TestSimulatedApiServer(api_server_contract.ApiServerContract):
    started: apiservers.ApiServer

    @pytest.fixture
    def server(self) -> Iterator[apiservers.ApiServer]:
        things = objects.Resource("things", "Thing", f"{statuses.THING_GROUP}/v1", custom=True)
        with apiservers.ApiServer(declared.SCHEMA, further=[things], bookmarks=0.2) as started:
            yield started

    @pytest.fixture
    def client(self, server: apiservers.ApiServer) -> Iterator[clients.Client]:
        made = clients.Client(plain_access.of(server.url))
        self.started = server
        yield made
        made.close()

    @pytest.fixture
    def namespace(self) -> str:
        return "contract"

    def forget(self, client: clients.Client) -> bool:
        self.started.objects.compact("pods")
        return True
