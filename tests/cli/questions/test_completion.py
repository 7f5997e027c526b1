"""Names are completed wherever a command takes one, also those far down in a long list."""

import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click import shell_completion

from app import cli
from app.cli.completion import items
from tests.support import commands
from tests.support.doctor import clusters
from tests.support.extender import api_worlds, http_servers

GENEROUS = 60.0
"""Seconds; a request to the API server waits for longer, and kubectl is waited for without a limit."""


@pytest.fixture
def url(six: api_worlds.World, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """F6, with more pods than a page has before z-1, and one in another namespace."""
    six.append(*(api_worlds.pod_seen(f"m-{number:03}") for number in range(120)))
    six.append(api_worlds.pod_seen("z-1"))
    monkeypatch.setattr(items, "SECONDS", GENEROUS)
    monkeypatch.setattr(items, "REPLY_SECONDS", GENEROUS)
    six.client.put("/apis/v1/shadows/strict", json={"configuration": {"weights": {"JobAffinity": 2}}})
    with http_servers.serving_http(six.app) as url:
        yield url


def completed(url: str, words: str) -> list[str]:
    *before, incomplete = words.split(" ")
    shell = shell_completion.ShellComplete(cli.topolog, {}, "topolog", "_TOPOLOG_COMPLETE")
    command, rest = before[:1], before[1:]
    if command[0] in ("flags", "shadow"):
        command, rest = before[:2], before[2:]
    return [one.value for one in shell.get_completions([*command, "--server", url, *rest], incomplete)]


COMPLETED = {
    "explain shop/z": ["shop/z-1"],
    "explain -n shop z": ["z-1"],
    "explain -n other z": [],
    "explain -n sh": ["shop"],
    "simulate shop/a-1 shop/a-6": ["shop/a-6"],
    "simulate --cordon member": ["member-1", "member-2"],
    "simulate --like host-4": ["host-4"],
    "simulate --delete-pod shop/z": ["shop/z-1"],
    "fit shop/z": ["shop/z-1"],
    "fit --remove-node host-1": ["host-1"],
    "bisect shop/z": ["shop/z-1"],
    "get pods shop/z": ["shop/z-1"],
    "get pod -n shop z": ["z-1"],
    "get pods/shop/z": ["pods/shop/z-1"],
    "get node member": ["member-1", "member-2"],
    "get -n s": ["shop"],
    "flags set debugT": ["debugTopNScores"],
    "flags unset debugF": ["debugFilterFailure"],
    "flags set s 5 --pod shop/z": ["shop/z-1"],
    "shadow show st": ["strict"],
    "shadow delete x": [],
}


def test_each_name_is_completed(url: str) -> None:
    assert {words: completed(url, words) for words in COMPLETED} == COMPLETED


# -- by the kubeconfig --------------------------------------------------------------------------


def silent_kubectl(folder: pathlib.Path) -> str:
    """A kubectl that forwards nothing, and writes its PID; the PATH that has it."""
    made = folder / "bin" / "kubectl"
    made.parent.mkdir()
    made.write_text(f"#!/bin/sh\necho $$ > {folder}/pid\nexec sleep 600\n")
    made.chmod(0o755)
    return f"{made.parent}:/usr/bin:/bin"


LONGER = """
from app import cli
from app.cli.completion import items
items.SECONDS = 20.0  # On a busy machine, the imports alone take seconds.
cli.main()
"""


def completed_by_a_shell(**environ: str) -> str:
    words = {"_TOPOLOG_COMPLETE": "bash_complete", "COMP_WORDS": "topolog get pods ", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", LONGER],
        capture_output=True,
        text=True,
        env=commands.environment({**words, **environ}),
        timeout=GENEROUS,
        check=True,
    )
    return (done.stdout + done.stderr).strip()


def test_an_api_server_that_never_answers_completes_nothing(tmp_path: pathlib.Path) -> None:
    path = silent_kubectl(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        kubeconfig = commands.kubeconfig(tmp_path, url)
        assert completed_by_a_shell(PATH=path, TOPOLOG_KUBE_KUBECONFIG=kubeconfig) == ""
        # It was asked.
        listening.settimeout(GENEROUS)
        listening.accept()[0].close()


def test_a_kubectl_that_never_forwards_completes_nothing_and_is_ended(tmp_path: pathlib.Path) -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    with clusters.running(tmp_path) as cluster:
        cluster.add_own_pod("topolog-extender-0", "extender")
        key = (clusters.HOME, "topolog-extender-0")
        cluster.api.objects.change("pods", key, lambda one: {**one, "status": ready})
        cluster.add_certificate(b"certificate", b"key", b"CA", name="topolog-viewer-tls")
        assert completed_by_a_shell(**cluster.environ, PATH=silent_kubectl(tmp_path)) == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
