"""Certificates and server processes for the tests beside this file."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from app.serving import issuing
from tests.serving import echoing, servers

HOSTS = ("localhost", "127.0.0.1", "topolog.kube-system.svc")


class Starts(Protocol):
    def __call__(self, **plan: object) -> servers.Server: ...


@pytest.fixture
def certificates(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with what `topolog certs` makes."""
    directory = tmp_path / "certificates"
    issuing.issue(directory, HOSTS, password="a good one")
    return directory


@pytest.fixture
def start(certificates: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Starts]:
    """Start a server on those certificates; it is stopped after the test."""
    processes: list[servers.Process] = []

    def started(**plan: object) -> servers.Server:
        process = servers.Process(servers.plan_for(certificates, **plan), tmp_path)
        processes.append(process)
        return servers.Server(process, certificates, process.port())

    yield started
    for process in processes:
        process.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    """One server for all tests of a module that leave it as it was."""
    directory = tmp_path_factory.mktemp("shared")
    issuing.issue(directory, HOSTS)
    process = servers.Process(servers.plan_for(directory), directory)
    yield servers.Server(process, directory, process.port())
    process.stop()


@pytest.fixture
def launch(tmp_path: pathlib.Path) -> Iterator[Callable[..., servers.Process]]:
    """Start a process that is not expected to serve."""
    processes: list[servers.Process] = []

    def launched(plan: echoing.Plan) -> servers.Process:
        processes.append(servers.Process(plan, tmp_path))
        return processes[-1]

    yield launched
    for process in processes:
        process.stop()
