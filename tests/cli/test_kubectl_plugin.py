"""``kubectl topolog``: the plugin as the real kubectl finds it, and how it finds an extender."""

import base64
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from app import __version__
from app.cli.client import port_forwards
from app.serving.tls import certificate_issuer
from app.simulation.apiserver import faults
from tests.support import commands, polling
from tests.support.doctor import clusters
from tests.support.monitoring import installations

BIN = pathlib.Path(sys.executable).parent
KUBECTL = shutil.which("kubectl")
HOME = clusters.HOME
Json = dict[str, Any]
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")


def kubectl(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    assert KUBECTL
    path = f"{BIN}:{pathlib.Path(KUBECTL).parent}:/usr/bin:/bin"
    return subprocess.run(
        [KUBECTL, *arguments],
        capture_output=True,
        text=True,
        env=commands.environment({"PATH": path, **environ}),
        timeout=60,
        check=False,
    )


@needs_kubectl
def test_kubectl_finds_the_plugin_and_runs_it() -> None:
    assert f"{BIN}/kubectl-topolog" in kubectl("plugin", "list").stdout
    assert kubectl("topolog", "version").stdout.startswith(f"topolog {__version__} ")
    assert kubectl("topolog", "get", "--help").stdout.startswith("Usage: kubectl topolog get ")
    assert kubectl("topolog", "nothing").returncode == 2


@needs_kubectl
def test_kubectl_completes_the_plugin() -> None:
    lines = kubectl("__complete", "topolog", "sta").stdout.splitlines()
    assert [line.partition("\t")[0] for line in lines] == ["status", ":4"]
    assert "nodes" in kubectl("__complete", "topolog", "get", "").stdout


# -- by the kubeconfig --------------------------------------------------------------------------

FORWARDER = """
    #!{python}
    # Forwards connections as `kubectl port-forward` does, to the port of the test in place of that of a pod.
    import os, pathlib, socket, sys, threading
    port = {ports}["view" if "pod/topolog-view" in " ".join(sys.argv) else "extender"]
    pathlib.Path({log!r}).write_text(" ".join(sys.argv[1:]))
    pathlib.Path({log!r} + ".pid").write_text(str(os.getpid()))
    pathlib.Path({log!r} + ".kubeconfig").write_text(os.environ.get("KUBECONFIG", ""))
    listening = socket.create_server(("127.0.0.1", int(sys.argv[-1].partition(":")[0] or 0)))
    print(f"Forwarding from 127.0.0.1:{{listening.getsockname()[1]}} -> 8443", flush=True)
    def copy(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass
    while True:
        near, _ = listening.accept()
        far = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=copy, args=(near, far), daemon=True).start()
        threading.Thread(target=copy, args=(far, near), daemon=True).start()
"""


def script(folder: pathlib.Path, text: str) -> pathlib.Path:
    """A kubectl of this test; returns its folder, for PATH."""
    made = folder / "bin" / "kubectl"
    made.parent.mkdir(exist_ok=True)
    made.write_text(textwrap.dedent(text).lstrip())
    made.chmod(0o755)
    return made.parent


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[installations.Installation]:
    """An installation whose certificate has the name of the Service."""
    with installations.running(tmp_path_factory.mktemp("plugin"), view=True) as made:
        yield made


@pytest.fixture
def cluster(tmp_path: pathlib.Path, running: installations.Installation) -> Iterator[clusters.Cluster]:
    """A cluster with a ready extender and view, to which kubectl here forwards, and the viewer's Secret."""
    tls = running.stage.folder / "tls"
    ports = {name: running.processes[name].port for name in ("extender", "view")}
    with clusters.running(tmp_path) as made:
        for name, status in (("extender-0", "False"), ("extender-1", "True"), ("view-0", "True")):
            made.add_own_pod(f"topolog-{name}", name.partition("-")[0])
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}
            made.api.objects.change("pods", (HOME, f"topolog-{name}"), partial(with_status, ready))
        files = (tls / "viewer.crt", tls / "viewer.key", tls / "ca.crt")
        made.add_certificate(*(file.read_bytes() for file in files), name="topolog-viewer-tls")
        log = tmp_path / "kubectl.log"
        folder = script(tmp_path, FORWARDER.format(python=sys.executable, log=str(log), ports=ports))
        made.environ |= {"PATH": f"{folder}:/usr/bin:/bin", "TOPOLOG_CLIENT_SERVER_NAME": "127.0.0.1"}
        yield made


def with_status(status: Json, pod: Json) -> Json:
    return {**pod, "status": status}


def terminating(pod: Json) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-11-27T00:00:00Z"}}


READY: Json = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def topolog(cluster: clusters.Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.called(*arguments, **cluster.environ)


def test_an_extender_is_found_by_the_kubeconfig_alone(
    cluster: clusters.Cluster, tmp_path: pathlib.Path
) -> None:
    done = topolog(cluster, "get", "lag", "-o", "jsonpath=$.version")
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n"), done.stderr
    asked = (tmp_path / "kubectl.log").read_text()
    # The one that is ready, in the cluster of the settings.
    assert asked.endswith("port-forward --address 127.0.0.1 pod/topolog-extender-1 :8443")
    assert kubeconfig(tmp_path) == cluster.environ["TOPOLOG_KUBE_KUBECONFIG"]


def kubeconfig(folder: pathlib.Path) -> str:
    """The files that kubectl reads."""
    return (folder / "kubectl.log.kubeconfig").read_text()


def test_kubectl_reads_the_files_of_the_settings(cluster: clusters.Cluster, tmp_path: pathlib.Path) -> None:
    """kubectl takes neither several files nor ``~`` as its --kubeconfig."""
    given = pathlib.Path(cluster.environ["TOPOLOG_KUBE_KUBECONFIG"])
    several = f"~/none{os.pathsep}~/{given.name}"
    cluster.environ |= {"HOME": str(given.parent), "TOPOLOG_KUBE_KUBECONFIG": several}
    done = topolog(cluster, "get", "lag")
    assert done.returncode == 0, done.stderr
    assert kubeconfig(tmp_path) == f"{given.parent}/none{os.pathsep}{given}"


@pytest.mark.parametrize("command", ["doctor run", "doctor tls", "doctor scheduler", "status"])
def test_the_extender_of_the_namespace_that_is_examined_is_asked(
    cluster: clusters.Cluster, tmp_path: pathlib.Path, command: str
) -> None:
    """Although another installation is in the namespace of the settings."""
    environ = {**cluster.environ, "TOPOLOG_CLIENT_NAMESPACE": "another"}
    done = commands.called(*command.split(), "--namespace", HOME, "-o", "json", **environ)
    asked = (tmp_path / "kubectl.log").read_text()
    assert f"--namespace {HOME} port-forward" in asked, done.stdout


def test_the_view_is_found_in_the_same_way(cluster: clusters.Cluster, tmp_path: pathlib.Path) -> None:
    done = topolog(cluster, "bundle", "create", "-o", str(tmp_path / "made.tar"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kubectl.log").read_text().endswith("pod/topolog-view-0 :8444")


def test_a_shadow_is_set_by_the_certificate_of_an_operator(
    cluster: clusters.Cluster, running: installations.Installation
) -> None:
    tls = running.stage.folder / "tls"
    files = (tls / "operator.crt", tls / "operator.key", tls / "ca.crt")
    cluster.add_certificate(*(file.read_bytes() for file in files), name="topolog-operator-tls")
    for words in (("set", "heavy", "--weights", "JobAffinity=3"), ("delete", "heavy")):
        done = topolog(cluster, "shadow", *words)
        assert (done.returncode, done.stdout[:12]) == (0, "shadow heavy"), done.stderr


def test_a_view_that_is_named_is_asked_instead(
    cluster: clusters.Cluster, running: installations.Installation, tmp_path: pathlib.Path
) -> None:
    cluster.environ["TOPOLOG_CLIENT_VIEW_URL"] = "https://127.0.0.1:9"
    done = topolog(cluster, "bundle", "create", "-o", str(tmp_path / "made.tar"))
    assert done.returncode == 5
    assert "https://127.0.0.1:9" in done.stderr
    assert not (tmp_path / "kubectl.log").exists()


TALKATIVE = """
    #!{python}
    # kubectl writes a line for each connection, and does not go on before the line is written.
    import socket
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"Forwarding from 127.0.0.1:{{listening.getsockname()[1]}} -> 8443", flush=True)
    print("Handling connection for 8443\\n" * 10_000, flush=True)
    listening.accept()[0].sendall(b"ok")
"""


def test_what_kubectl_writes_never_stops_it(tmp_path: pathlib.Path) -> None:
    folder = script(tmp_path, TALKATIVE.format(python=sys.executable))
    with (
        port_forwards.Forward([str(folder / "kubectl")], "pod", 8443, other_pod=str) as forward,
        socket.create_connection(("127.0.0.1", forward.port), timeout=20) as connection,
    ):
        assert connection.recv(2) == b"ok"


def test_a_watch_goes_on_through_another_pod(
    cluster: clusters.Cluster, running: installations.Installation, tmp_path: pathlib.Path
) -> None:
    """kubectl ends when it loses its pod, such as in a rolling restart."""
    cluster.add_own_pod("topolog-view-1", "view")
    cluster.api.objects.change("pods", (HOME, "topolog-view-1"), partial(with_status, READY))
    running.stage.node("first")
    command = [sys.executable, "-m", "app.cli", "watch", "--type", "NodeSeen", "--from", "0", "--count", "2"]
    environ = commands.environment(cluster.environ)
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("OFFSET ")
        assert watching.stdout.readline().endswith(" first\n")
        cluster.api.objects.change("pods", (HOME, "topolog-view-0"), terminating)
        os.kill(int((tmp_path / "kubectl.log.pid").read_text()), signal.SIGKILL)
        running.stage.node("second")
        rest, errors = watching.communicate(timeout=60)
    assert (watching.returncode, errors) == (0, "")
    assert rest.endswith(" second\n")
    assert "pod/topolog-view-1" in (tmp_path / "kubectl.log").read_text()


def test_sigterm_leaves_neither_the_key_nor_kubectl(
    cluster: clusters.Cluster, tmp_path: pathlib.Path
) -> None:
    """As `timeout` and the end of a job in CI send it."""
    folder, temporary = tmp_path / "bin", tmp_path / "temporary"
    temporary.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = dict.fromkeys(("extender", "view"), silent.getsockname()[1])
        script(tmp_path, FORWARDER.format(python=sys.executable, log=str(tmp_path / "log"), ports=ports))
        environ = {**cluster.environ, "PATH": f"{folder}:/usr/bin:/bin", "TMPDIR": str(temporary)}
        command = [sys.executable, "-m", "app.cli", "get", "lag"]
        with subprocess.Popen(
            command, env=commands.environment(environ), stderr=subprocess.PIPE, text=True
        ) as asking:
            accepted, _ = silent.accept()
            with accepted:
                assert [*temporary.glob("*/tls.key")], "it waits for the reply, with the key"
                asking.send_signal(signal.SIGTERM)
                _, errors = asking.communicate(timeout=60)
    assert (asking.returncode, errors) == (130, "\n"), "as after Ctrl-C"
    assert [*temporary.iterdir()] == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "log.pid").read_text()), 0)


LOSING = """
    #!{python}
    # kubectl ends when it cannot reach the port in the pod.
    import socket, sys
    listening = socket.create_server(("127.0.0.1", int(sys.argv[-1].partition(":")[0] or 0)))
    print(f"Forwarding from 127.0.0.1:{{listening.getsockname()[1]}} -> 8443", flush=True)
    listening.accept()[0].close()
    sys.exit("error forwarding port 8443: connection refused\\nerror: lost connection to pod")
"""


def test_the_reason_why_a_pod_was_lost_is_that_of_kubectl(
    cluster: clusters.Cluster, tmp_path: pathlib.Path
) -> None:
    script(tmp_path, LOSING.format(python=sys.executable))
    done = topolog(cluster, "get", "lag")
    assert done.returncode == 5
    (line,) = done.stderr.splitlines()
    assert line.endswith(
        "pod/topolog-extender-1: error forwarding port 8443: connection refused error: lost connection to pod"
    )


def test_a_pod_that_is_being_deleted_is_not_asked(cluster: clusters.Cluster, tmp_path: pathlib.Path) -> None:
    """It stays ready for as long as its containers run."""
    cluster.api.objects.change("pods", (HOME, "topolog-extender-0"), partial(with_status, READY))
    cluster.api.objects.change("pods", (HOME, "topolog-extender-0"), terminating)
    assert topolog(cluster, "get", "lag").returncode == 0
    assert "pod/topolog-extender-1" in (tmp_path / "kubectl.log").read_text()


def test_nothing_is_left_behind(cluster: clusters.Cluster, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    cluster.environ["TMPDIR"] = str(folder)
    assert topolog(cluster, "get", "lag").returncode == 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(("get", "lag"), "topolog-extender"), (("get", "--raw", "/apis/v1/lag"), "topolog-view")],
)
def test_the_name_of_the_service_is_asked_for(
    cluster: clusters.Cluster, arguments: tuple[str, ...], name: str
) -> None:
    del cluster.environ["TOPOLOG_CLIENT_SERVER_NAME"]
    done = topolog(cluster, *arguments)
    assert done.returncode == 5
    assert f"{name}.topolog-system.svc" in done.stderr


def unready(cluster: clusters.Cluster) -> None:
    cluster.api.objects.remove("pods", (HOME, "topolog-extender-1"))


def secretless(cluster: clusters.Cluster) -> None:
    cluster.api.objects.remove("secrets", (HOME, "topolog-viewer-tls"))


def half(cluster: clusters.Cluster) -> None:
    cluster.api.objects.remove("secrets", (HOME, "topolog-viewer-tls"))
    data = {"tls.crt": base64.b64encode(b"x").decode(), "tls.key": "?"}
    cluster.add("secrets", {"metadata": {"name": "topolog-viewer-tls", "namespace": HOME}, "data": data})


def forbidden(cluster: clusters.Cluster) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL, lambda request: "secrets" in request.path.split("/"), status=403, times=9
    )


def no_kubectl(cluster: clusters.Cluster) -> None:
    cluster.environ["PATH"] = "/proc/nonexistent"


def refusing(cluster: clusters.Cluster) -> None:
    folder = pathlib.Path(cluster.environ["PATH"].partition(":")[0]).parent
    script(folder, "#!/bin/sh\necho 'error: unable to upgrade connection: Forbidden' >&2\nexit 1\n")


FAULTS = {
    "no extender is ready": (unready, "namespace topolog-system has no ready extender"),
    "there is no Secret": (secretless, "secrets/topolog-viewer-tls does not exist"),
    "the Secret is not whole": (half, "Secret topolog-viewer-tls has no tls.key"),
    "the Secret may not be read": (forbidden, "refuses to get"),
    "kubectl is missing": (no_kubectl, "kubectl, which would forward a port, is not on PATH"),
    "kubectl may not forward": (refusing, "unable to upgrade connection: Forbidden"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_reason_is_given(cluster: clusters.Cluster, name: str) -> None:
    change, reason = FAULTS[name]
    change(cluster)
    done = topolog(cluster, "get", "lag")
    assert done.returncode == 5
    (line,) = done.stderr.splitlines()
    assert "; nor by the kubeconfig: " in line
    assert reason in line


@pytest.mark.parametrize("command", [("watch",), ("bundle", "create", "-o", "b.tar")])
def test_the_commands_of_view_give_the_reason_and_name_its_process(
    cluster: clusters.Cluster, tmp_path: pathlib.Path, command: tuple[str, ...]
) -> None:
    change, reason = FAULTS["there is no Secret"]
    change(cluster)
    words = [str(tmp_path / word) if word == "b.tar" else word for word in command]
    done = topolog(cluster, *words)
    assert (done.returncode, done.stdout) == (5, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert "nothing listens there: does `topolog view` run, or a port-forward to it?" in line
    assert "; nor by the kubeconfig: " in line
    assert reason in line


def test_what_is_named_is_used_instead(cluster: clusters.Cluster, tmp_path: pathlib.Path) -> None:
    done = topolog(cluster, "get", "lag", "--server", "https://127.0.0.1:9")
    assert done.returncode == 5
    assert "kubeconfig" not in done.stderr
    assert not (tmp_path / "kubectl.log").exists()


def test_the_certificates_here_have_the_name_that_is_used(tmp_path: pathlib.Path) -> None:
    """The name is that of deploy/, for which `topolog bootstrap` makes certificates."""
    certificate_issuer.issue(tmp_path / "tls", ["topolog-extender.topolog-system.svc"])
    assert polling.eventually(lambda: (tmp_path / "tls" / "server.crt").is_file(), "they are made")
