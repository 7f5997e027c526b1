"""Containers of the kubelet that runs pods as processes: none is left behind by a test."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e.nodes import containers, networks, process_kubelets

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.fixture
def network() -> Iterator[networks.Network]:
    lacking = process_kubelets.lacking()
    if lacking:
        pytest.skip(lacking)
    made = networks.Network()
    made.start()
    yield made
    made.stop()


def test_all_processes_of_a_container_end_when_it_is_killed(
    network: networks.Network, tmp_path: pathlib.Path
) -> None:
    container = containers.Process(
        network=network.name,
        host="pod",
        image=containers.Image({}, {}, []),
        command=["sh", "-c", "sleep 600 & sleep 600"],
        env={},
        mounts=[],
        hosts={},
        security={"runAsUser": 10001, "runAsGroup": 10001, "capabilities": {"drop": ["ALL"]}},
        folder=tmp_path / "container",
        log=tmp_path / "log",
    )

    def processes() -> list[pathlib.Path]:
        """Those in the container's namespace of processes."""
        return [each for each in pathlib.Path("/proc").glob("[0-9]*") if _namespace(each) == inside]

    def first() -> pathlib.Path:
        return pathlib.Path(f"/proc/{container.pid}")

    polling.eventually(lambda: "10001" in _user(first()), "the command runs as its user", within=20)
    inside = _namespace(first())
    polling.eventually(lambda: len(processes()) == 3, "the shell and both of its children run")
    container.kill()
    polling.eventually(lambda: processes() == [], "no process of the container is left")


def _namespace(process: pathlib.Path) -> str:
    try:
        return str((process / "ns" / "pid").readlink())
    except OSError:
        return ""


def _user(process: pathlib.Path) -> str:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return ""
    return next(line for line in lines if line.startswith("Uid:"))
