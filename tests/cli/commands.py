"""Running the command as people do: a process of its own, with an environment of its own."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """That of the test, without any setting of ours, and with changes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOPOLOG_", "TLS_"))}
    return {**kept, "XDG_STATE_HOME": "/nonexistent", "COLUMNS": "120", **changes}


def topolog(*arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``topolog`` and wait for its end."""
    return run(["-m", "app.cli", *arguments], stdin=stdin, environ=environ)


def run(
    arguments: Sequence[str], *, stdin: str = "", environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python and wait for its end."""
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(environ or {}),
        check=False,
    )


def kubeconfig(folder: pathlib.Path, server: str = "http://127.0.0.1:9") -> str:
    """The path of a kubeconfig that names this API server; at the default one, nobody listens."""
    path = folder / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c,"
        f" clusters: [{{name: c, cluster: {{server: '{server}'}}}}], users: [{{name: u, user: {{}}}}],"
        " contexts: [{name: c, context: {cluster: c, user: u}}]}"
    )
    return str(path)
