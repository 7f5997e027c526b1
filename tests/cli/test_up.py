"""``topolog up`` against a simulated API server: real processes, real mTLS, one Ctrl-C."""

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

from app.simulation.apiserver import apiservers
from app.telemetry import metrics
from tests.support import child_processes, commands, declared, polling, process_trees


@pytest.fixture
def kubeconfig(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A kubeconfig of a cluster with one node."""
    with apiservers.ApiServer(declared.SCHEMA) as server:
        node = {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        server.objects.create("nodes", node)
        yield pathlib.Path(commands.kubeconfig(tmp_path, server.url))


def free_ports() -> tuple[int, int]:
    """A free port, followed by one for the view, and the first of six consecutive free ports."""
    first = child_processes.free_port(row=8)
    return first + 6, first


def members(lines: list[str]) -> dict[str, int]:
    """Name -> pid of the processes reported as started."""
    started = [line.split() for line in lines if " started (pid " in line]
    return {words[-4]: int(words[-1].rstrip(")")) for words in started}


def alive(pid: int) -> bool:
    """Whether the process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_health_port_in_use_and_a_killed_extender_stop_no_other_process(
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
            # The restarted extender uses the same ports.
            until_ready(health)
            known = {**environ, "TOPOLOG_KUBE_KUBECONFIG": str(kubeconfig)}
            status = commands.topolog("status", "-o", "json", **known)
            up.send_signal(signal.SIGINT)
            lines += up.stderr
            code = up.wait()
        finally:
            watchdog.cancel()
            up.kill()
            up.stderr.close()
    output = "".join(lines)
    assert code == 0, output
    here = {one["role"]: one["name"] for one in json.loads(status.stdout)["processes"]}
    assert here.keys() == {*metrics.ALL}, status.stdout
    assert f"it now uses {here['recorder'].rpartition(':')[2]};" in output
    assert not list((tmp_path / "state").rglob("health-ports.json"))
    assert "topolog up: extender was killed by SIGKILL; restarting in" in output
    assert f"topolog up: recorder cannot use health port {health + 1}, which is in use; it now uses" in output
    assert sum("extender started" in line for line in lines) == 2
    assert not any("extender exited" in line for line in lines)


def until(stream: IO[str], beginning: str) -> list[str]:
    """The lines up to the first with this beginning."""
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


def test_one_command_runs_all_processes_and_an_interrupt_stops_them(
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
    # A process that never becomes ready must not hang the test.
    watchdog = threading.Timer(90, up.kill)
    watchdog.start()
    lines: list[str] = []
    try:
        for line in up.stderr:
            lines.append(line)
            if line == "topolog up: ready\n":
                break
        asked = commands.topolog("get", "nodes", "-o", "json", **environ)
        status = commands.topolog("status", "-o", "json", **environ, TOPOLOG_KUBE_KUBECONFIG=str(kubeconfig))
        up.send_signal(signal.SIGINT)
        lines += up.stderr
        code = up.wait()
    finally:
        watchdog.cancel()
        up.kill()
        up.stderr.close()
    output = "".join(lines)
    assert code == 0, output
    assert asked.returncode == 0, asked.stderr + output
    assert [node["name"] for node in json.loads(asked.stdout)["items"]] == ["n1"]
    here = {one["role"]: one["name"] for one in json.loads(status.stdout)["processes"]}
    assert here.keys() == {*metrics.ALL}, status.stdout
    assert here["view"].endswith(f":{health + 5}")
    # No process is left, and none exited with a traceback.
    started = members(lines)
    assert set(started) == {*metrics.ALL}
    assert not any(alive(pid) for pid in started.values())
    assert "Traceback" not in output
    assert output.endswith("topolog up: stopped\n")


def test_no_process_outlives_a_killed_up(kubeconfig: pathlib.Path, tmp_path: pathlib.Path) -> None:
    port, health = free_ports()
    environ = {
        "TOPOLOG_SERVER_BIND": "127.0.0.1",
        "TOPOLOG_SERVER_PORT": str(port),
        "TOPOLOG_SERVER_HEALTH_PORT": str(health),
        "TMPDIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    up = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "up", "--kubeconfig", str(kubeconfig)],
        env=commands.environment(environ),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stderr is not None
        lines = until(up.stderr, "topolog up: ready\n")
        children = process_trees.descendants(up.pid)
        assert {*members(lines).values()} <= {*children}
        assert any("-server " in process_trees.command(pid) for pid in children)
        up.kill()
        # The children hold the other end of the pipe.
        up.stderr.read()
        polling.eventually(
            lambda: not any(map(process_trees.command, children)), "no child lives", within=60.0
        )
    finally:
        up.kill()
        up.communicate()
