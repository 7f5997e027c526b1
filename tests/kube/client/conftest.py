"""Certificates, and simulated API servers with TLS: one asks for a token, the other for a certificate."""

import pathlib
import ssl
from collections.abc import Iterator

import pytest

from app.serving.tls import certificate_issuer
from app.simulation.apiserver import apiservers
from tests.support import declared
from tests.support.kube import kubeconfigs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Certificates: a CA, a server's and clients'."""
    made = tmp_path_factory.mktemp("certificates")
    certificate_issuer.issue(made, ["localhost", "127.0.0.1"])
    return made


@pytest.fixture
def context(folder: pathlib.Path) -> ssl.SSLContext:
    """The server's, which asks for no certificate yet."""
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    made.load_cert_chain(folder / "server.crt", folder / "server.key")
    return made


@pytest.fixture
def secured(context: ssl.SSLContext) -> Iterator[apiservers.ApiServer]:
    with apiservers.ApiServer(declared.SCHEMA, tls=context, tokens=(kubeconfigs.TOKEN,)) as started:
        yield started


@pytest.fixture
def mutual(context: ssl.SSLContext) -> Iterator[apiservers.ApiServer]:
    context.verify_mode = ssl.CERT_REQUIRED
    with apiservers.ApiServer(declared.SCHEMA, tls=context) as started:
        yield started
