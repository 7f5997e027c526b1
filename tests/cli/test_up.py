"""``topolog up`` as people run it: beside a simulated API server, real processes, real mTLS, one Ctrl-C."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import IO

import pytest

from app.simulation import apiservers
from tests.cli import commands


@pytest.fixture
def kubeconfig(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A kubeconfig of a cluster with one node."""
    with apiservers.ApiServer() as server:
        node = {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        server.objects.create("nodes", node)
        yield pathlib.Path(commands.kubeconfig(tmp_path, server.url))


def free_ports() -> tuple[int, int]:
    """One port, and the first of five in a row, all free a moment ago."""
    for first in range(21_000 + os.getpid() % 4_000, 29_000, 7):
        try:
            for port in range(first, first + 6):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first + 5, first
    raise AssertionError("no free ports")


def members(lines: list[str]) -> dict[str, int]:
    """Name -> pid of what was said to be started."""
    started = [line.split() for line in lines if " started (pid " in line]
    return {words[-4]: int(words[-1].rstrip(")")) for words in started}


def alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_port_that_is_taken_and_a_killed_extender_end_nothing(
    kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    port, health = free_ports()
    environ = {
        "TOPOLOG_SERVER_BIND": "127.0.0.1",
        "TOPOLOG_SERVER_PORT": str(port),
        "TOPOLOG_SERVER_HEALTH_PORT": str(health),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    with socket.create_server(("127.0.0.1", health + 1)):
        up = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "up", "--kubeconfig", str(kubeconfig)],
            env=commands.environment(environ),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert up.stderr is not None
        watchdog = threading.Timer(100, up.kill)
        watchdog.start()
        lines: list[str] = []
        try:
            lines += until(up.stderr, "topolog up: ready\n")
            master = members(lines)["extender"]
            os.kill(master, signal.SIGKILL)
            lines += until(up.stderr, "topolog up: extender started")
            # The one that follows has the ports of the one that was killed.
            until_ready(health)
            up.send_signal(signal.SIGINT)
            lines += up.stderr
            code = up.wait()
        finally:
            watchdog.cancel()
            up.kill()
            up.stderr.close()
    told = "".join(lines)
    assert code == 0, told
    assert "topolog up: extender was killed by SIGKILL; it is started again" in told
    assert f"topolog up: recorder found its health port {health + 1} taken; from now on it is" in told
    assert sum("extender started" in line for line in lines) == 2
    assert not any("extender ended" in line for line in lines)


def until(stream: IO[str], beginning: str) -> list[str]:
    """The lines up to one that begins so."""
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if line.startswith(beginning):
            break
    return lines


def until_ready(port: int) -> None:
    """Wait until the extender is ready again."""
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            return
        except OSError:
            time.sleep(0.05)


def test_one_command_runs_it_all_and_one_interrupt_ends_it(
    kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    port, health = free_ports()
    environ = {
        "TOPOLOG_SERVER_BIND": "127.0.0.1",
        "TOPOLOG_SERVER_PORT": str(port),
        "TOPOLOG_SERVER_HEALTH_PORT": str(health),
        "TOPOLOG_CLIENT_URL": f"https://127.0.0.1:{port}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    up = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "up", "--kubeconfig", str(kubeconfig)],
        env=commands.environment(environ),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert up.stderr is not None
    # A process that never gets ready must not hang the test.
    watchdog = threading.Timer(90, up.kill)
    watchdog.start()
    lines: list[str] = []
    try:
        for line in up.stderr:
            lines.append(line)
            if line == "topolog up: ready\n":
                break
        asked = commands.topolog("get", "nodes", "-o", "json", **environ)
        up.send_signal(signal.SIGINT)
        lines += up.stderr
        code = up.wait()
    finally:
        watchdog.cancel()
        up.kill()
        up.stderr.close()
    told = "".join(lines)
    assert code == 0, told
    assert asked.returncode == 0, asked.stderr + told
    assert [node["name"] for node in json.loads(asked.stdout)["items"]] == ["n1"]
    # Is nobody left behind, and nothing that only looked like an end?
    started = members(lines)
    assert set(started) == {"recorder", "controller", "compactor", "auditor", "extender"}
    assert not any(alive(pid) for pid in started.values())
    assert "Traceback" not in told
    assert told.endswith("topolog up: stopped\n")
