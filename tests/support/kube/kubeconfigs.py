"""Kubeconfigs of one user, and the exec plugin of one that runs a file of Python."""

import base64
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import Iterator

from app.kube.client import clients, credentials

TOKEN = "abc.def"
"""The bearer token of the test's server."""
_API = "client.authentication.k8s.io/v1"


def write(path: pathlib.Path, url: str, ca: pathlib.Path, user: dict[str, object]) -> str:
    """A kubeconfig at this path, which is returned."""
    authority = base64.b64encode(ca.read_bytes()).decode()
    path.write_text(
        json.dumps(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {"name": "c", "cluster": {"server": url, "certificate-authority-data": authority}}
                ],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return str(path)


def reads(access: credentials.Access) -> bool:
    """Whether both clients, the official and the fast one, can read pods."""
    client = clients.Client(access)
    try:
        general = json.loads(client.get("/api/v1/pods"))["kind"] == "PodList"
        return general and client.exchange("GET", "/api/v1/pods", timeout=5.0).status == 200
    finally:
        client.close()


class Plugin:
    """An exec plugin: it notes each run, and prints what the test has chosen."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.answer = folder / "answer"
        """The file with what it prints; without it the plugin fails."""
        self._runs = folder / "runs"
        self._runs.touch()
        program = folder / "plugin.py"
        program.write_text(
            f"import pathlib; pathlib.Path({str(self._runs)!r}).open('a').write('x')\n"
            f"print(pathlib.Path({str(self.answer)!r}).read_text())\n"
        )
        self.user: dict[str, object] = {
            "exec": {
                "apiVersion": _API,
                "command": sys.executable,
                "args": [str(program)],
                "interactiveMode": "Never",
            }
        }

    @property
    def runs(self) -> int:
        """How often it was run."""
        return len(self._runs.read_text())

    def prints(self, **status: str) -> None:
        """Let it print these credentials."""
        self.answer.write_text(json.dumps({"apiVersion": _API, "kind": "ExecCredential", "status": status}))

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Within it, a run does not end."""
        pipe, kept = self.answer.with_name("pipe"), self.answer.read_text()
        os.mkfifo(pipe)
        self.answer.unlink()
        self.answer.symlink_to(pipe)
        try:
            yield
        finally:
            self.answer.unlink()
            self.answer.write_text(kept)
            with contextlib.suppress(OSError), open(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "w") as run:
                run.write(kept)
