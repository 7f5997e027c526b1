"""``topolog up`` against a simulated API server: real processes, real mTLS, one Ctrl-C."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import urllib3
from cryptography import x509

from app import exit_codes
from app.cli import supervisor
from app.cli import up as up_module
from app.simulation.apiserver import apiservers
from app.store import keys, schemas
from app.store.server import embedded
from app.telemetry import metrics
from tests.support import child_processes, commands, declared, gadgets, polling, process_trees


@pytest.fixture
def kubeconfig(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A kubeconfig of a cluster with one node."""
    with apiservers.ApiServer(declared.SCHEMA) as server:
        node = {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        server.objects.create("nodes", node)
        yield pathlib.Path(commands.kubeconfig(tmp_path, server.url))


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


def _server(kubeconfig: pathlib.Path) -> str:
    """Address and port of the API server."""
    found = re.search(r"127\.0\.0\.1:\d+", kubeconfig.read_text())
    assert found
    return found[0]


class Up:
    """`topolog up` with a free port, one for the view, and six for health from ``health`` on."""

    def __init__(self, kubeconfig: pathlib.Path, folder: pathlib.Path) -> None:
        self.health = child_processes.free_port(row=8)
        port = self.health + 6
        self.environ = {
            "TOPOLOG_SERVER_BIND": "127.0.0.1",
            "TOPOLOG_SERVER_PORT": str(port),
            "TOPOLOG_SERVER_HEALTH_PORT": str(self.health),
            "TOPOLOG_CLIENT_URL": f"https://127.0.0.1:{port}",
            "TOPOLOG_KUBE_KUBECONFIG": str(kubeconfig),
            "TMPDIR": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            # Its own processes are reached without the proxy of the workstation.
            "http_proxy": "http://127.0.0.1:9",
            "no_proxy": _server(kubeconfig),
        }
        self.lines: list[str] = []

    def __enter__(self) -> "Up":
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "up"],
            env=commands.environment(self.environ),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.stream = self.process.stderr
        # A process that never becomes ready must not hang the test.
        self._watchdog = threading.Timer(100, self.process.kill)
        self._watchdog.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self.process.kill()
        self.process.communicate()

    def until(self, start: str) -> None:
        """Read the lines up to the first that starts like this."""
        for line in self.stream:
            self.lines.append(line)
            if line.startswith(start):
                break

    def answer(self, *words: str) -> dict[str, Any]:
        """The JSON that a command prints beside it."""
        ended = commands.topolog(*words, "-o", "json", **self.environ)
        assert ended.returncode == 0, ended.stderr + "".join(self.lines)
        answered: dict[str, Any] = json.loads(ended.stdout)
        return answered

    def interrupted(self) -> str:
        """All that it printed, after Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        self.lines += self.stream
        output = "".join(self.lines)
        assert self.process.wait() == 0, output
        return output


def until_ready(port: int) -> None:
    """Wait until the extender is ready again."""
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            return
        except OSError:
            time.sleep(0.05)


def test_a_health_port_in_use_and_a_killed_extender_stop_no_other_process(
    kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    up = Up(kubeconfig, tmp_path)
    taken = up.health + 1
    with socket.create_server(("127.0.0.1", taken)), up:
        up.until("topolog up: ready\n")
        os.kill(members(up.lines)["extender"], signal.SIGKILL)
        up.until("topolog up: extender started")
        # The restarted extender uses the same ports.
        until_ready(up.health)
        status = up.answer("status")
        output = up.interrupted()
    here = {one["role"]: one["name"] for one in status["processes"]}
    assert here.keys() == {*metrics.ALL}
    assert f"it now uses {here['recorder'].rpartition(':')[2]};" in output
    assert not list((tmp_path / "state").rglob("health-ports.json"))
    assert "topolog up: extender was killed by SIGKILL; restarting in" in output
    assert f"topolog up: recorder cannot use health port {taken}, which is in use; it now uses" in output
    assert sum("extender started" in line for line in up.lines) == 2
    assert not any("extender exited" in line for line in up.lines)


@pytest.mark.parametrize("offset", [0, 1], ids=["server.port", "view.port"])
def test_a_port_that_another_one_uses_is_named_before_anything_starts(
    kubeconfig: pathlib.Path, tmp_path: pathlib.Path, offset: int
) -> None:
    up = Up(kubeconfig, tmp_path)
    with socket.create_server(("127.0.0.1", int(up.environ["TOPOLOG_SERVER_PORT"]) + offset)):
        done = commands.topolog("up", **up.environ)
    assert done.returncode == 6
    assert f"cannot listen on {('server.port', 'view.port')[offset]} 127.0.0.1:" in done.stderr
    assert "does another `topolog up` run?" in done.stderr
    assert "started" not in done.stderr
    assert not (tmp_path / "state").exists()


def test_two_do_not_share_the_data_of_a_store(kubeconfig: pathlib.Path, tmp_path: pathlib.Path) -> None:
    up, folder = Up(kubeconfig, tmp_path), tmp_path / "store"
    server = embedded.Server(folder, append_only=True)
    try:
        done = commands.topolog("up", TOPOLOG_STORE_EMBEDDED_DIR=str(folder), **up.environ)
    finally:
        server.stop()
    assert done.returncode == exit_codes.STORE
    assert f"{folder} is in use by another `topolog up`: give each cluster" in done.stderr
    assert "started" not in done.stderr


def test_a_folder_that_the_store_cannot_use_is_named(
    kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    up, file = Up(kubeconfig, tmp_path), tmp_path / "file"
    file.touch()
    done = commands.called("up", TOPOLOG_STORE_EMBEDDED_DIR=str(file / "store"), **up.environ)
    assert done.returncode == exit_codes.STORE
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("topolog up: ")]
    assert line.startswith("topolog: the embedded store cannot be started ")
    assert f"'{file / 'store'}'" in line
    assert "store.embedded_dir" in line


def test_a_store_with_counts_of_another_form_is_refused_with_its_cause(
    kubeconfig: pathlib.Path, tmp_path: pathlib.Path, store_server: embedded.Server, cluster: str
) -> None:
    with contextlib.closing(redis.Redis.from_url(store_server.url)) as client:
        schemas.migrate(client, keys.Keys(cluster, gadgets.SCHEMA.forms), gadgets.SCHEMA)
    own = {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster}
    done = commands.called("up", **{**Up(kubeconfig, tmp_path).environ, **own})
    assert done.returncode == exit_codes.STORE
    assert f"keeps counts:{gadgets.SCHEMA.forms}, this version" in done.stderr
    assert "install the same version and the same plugins everywhere" in done.stderr


def names_of(file: pathlib.Path) -> set[str]:
    """The names and addresses of a certificate."""
    found = x509.load_pem_x509_certificate(file.read_bytes()).extensions
    return {str(each.value) for each in found.get_extension_for_class(x509.SubjectAlternativeName).value}


@pytest.mark.parametrize(
    ("bind", "hosts", "url", "local"),
    [
        ("", ["*.example", "a.example"], "https://a.example:9443", "http://127.0.0.1:8081"),
        ("192.0.2.1", ["a.example"], "https://a.example:9443", "http://192.0.2.1:8081"),
        ("192.0.2.1", [], "https://192.0.2.1:9443", "http://192.0.2.1:8081"),
        ("2001:db8::1", [], "https://[2001:db8::1]:9443", "http://[2001:db8::1]:8081"),
        *((each, [], f"https://{socket.gethostname()}:9443", "http://127.0.0.1:8081") for each in ("::", "")),
    ],
)
def test_the_extender_is_shown_by_a_name_of_its_certificate(
    bind: str,
    hosts: list[str],
    url: str,
    local: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def answer(_: str, url: str, **options: object) -> urllib3.BaseHTTPResponse:
        asked.append(url)
        return urllib3.HTTPResponse(status=200)

    monkeypatch.setattr(urllib3, "request", answer)
    monkeypatch.setattr(supervisor.Supervisor, "run", lambda self, *, ready: int(not ready()))
    monkeypatch.setattr(up_module, "_check_ports", lambda loaded: None)
    options = [part for host in hosts for part in ("--host", host)]
    environ = {
        "TOPOLOG_SERVER_BIND": bind,
        "TOPOLOG_SERVER_PORT": "9443",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TMPDIR": str(tmp_path),
        "TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(tmp_path, "http://127.0.0.1:9"),
    }
    done = commands.called("up", *options, **environ)
    assert done.returncode == 0, done.stderr
    assert f"extender:  {url}   (urlPrefix for kube-scheduler)" in done.stderr
    assert asked == [f"{local}/readyz"]
    (file,) = (tmp_path / "state").rglob("server.crt")
    assert urllib.parse.urlsplit(url).hostname in names_of(file)


def test_one_command_runs_all_processes_and_an_interrupt_stops_them(
    kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    up = Up(kubeconfig, tmp_path)
    # An extender that binds nothing before it is on disk is only ready with a server that syncs.
    up.environ["TOPOLOG_STORE_PLACEMENTS"] = "fsync"
    up.environ["TOPOLOG_SERVER_BIND"] = ""
    with up:
        up.until("topolog up: ready\n")
        nodes, status = up.answer("get", "nodes"), up.answer("status")
        output = up.interrupted()
    assert [node["name"] for node in nodes["items"]] == ["n1"]
    here = {one["role"]: one["name"] for one in status["processes"]}
    assert here.keys() == {*metrics.ALL}
    assert here["view"].endswith(f":{up.health + 5}")
    (shown,) = re.findall(r"extender:  https://(\S+):(\d+)   \(urlPrefix for kube-scheduler\)", output)
    assert shown == (socket.gethostname(), up.environ["TOPOLOG_SERVER_PORT"])
    (file,) = (tmp_path / "state").rglob("server.crt")
    assert shown[0] in names_of(file)
    # No process is left, and none exited with a traceback.
    started = members(up.lines)
    assert set(started) == {*metrics.ALL}
    assert not any(alive(pid) for pid in started.values())
    assert "Traceback" not in output
    assert output.endswith("topolog up: stopped\n")


def test_no_process_outlives_a_killed_up(kubeconfig: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Up(kubeconfig, tmp_path) as up:
        up.until("topolog up: ready\n")
        children = process_trees.descendants(up.process.pid)
        assert {*members(up.lines).values()} <= {*children}
        assert any("-server " in process_trees.command(pid) for pid in children)
        up.process.kill()
        # The children hold the other end of the pipe.
        up.stream.read()
        polling.eventually(
            lambda: not any(map(process_trees.command, children)), "no child lives", within=60.0
        )
