"""A simulated API server with Secrets."""

import pathlib
from collections.abc import Iterator

import pytest

from app.kube.client import clients
from app.kube.writes import secrets
from app.simulation.apiserver import apiservers, objects
from tests.support import commands, declared
from tests.support.kube import plain_access
from tests.support.provisioning import namespaces, secrets_of


@pytest.fixture
def namespace(tmp_path: pathlib.Path) -> Iterator[namespaces.Namespace]:
    kind = objects.Resource("secrets", "Secret")
    with apiservers.ApiServer(declared.SCHEMA, further=[kind]) as server:
        client = clients.Client(plain_access.of(server.url))
        access = secrets.Secrets(client, secrets_of.HOME)
        yield namespaces.Namespace(server, access, commands.kubeconfig(tmp_path, server.url))
        client.close()
