"""Certificates and server processes for the tests beside this file."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from app.serving.tls import certificate_issuer
from tests.support.extender import echo_application, server_processes

HOSTS = ("localhost", "127.0.0.1", "topolog.kube-system.svc")


@pytest.fixture
def certificates(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with the files that `topolog certs` creates."""
    directory = tmp_path / "certificates"
    certificate_issuer.issue(directory, HOSTS, password="a good one")
    return directory


@pytest.fixture
def start(certificates: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[server_processes.Starts]:
    """Start a server with those certificates; stop it after the test."""
    processes: list[server_processes.Process] = []

    def started(**plan: object) -> server_processes.Server:
        process = server_processes.Process(server_processes.plan_for(certificates, **plan), tmp_path)
        processes.append(process)
        return server_processes.Server(process, certificates, process.port())

    yield started
    for process in processes:
        process.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_processes.Server]:
    """One server per module, for tests that do not change its state."""
    directory = tmp_path_factory.mktemp("shared")
    certificate_issuer.issue(directory, HOSTS)
    process = server_processes.Process(server_processes.plan_for(directory), directory)
    yield server_processes.Server(process, directory, process.port())
    process.stop()


@pytest.fixture
def launch(tmp_path: pathlib.Path) -> Iterator[Callable[..., server_processes.Process]]:
    """Start a process that is expected to fail."""
    processes: list[server_processes.Process] = []

    def launched(plan: echo_application.Plan) -> server_processes.Process:
        processes.append(server_processes.Process(plan, tmp_path))
        return processes[-1]

    yield launched
    for process in processes:
        process.stop()
