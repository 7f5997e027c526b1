"""Runs the command line in a separate process with a clean environment."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of the test without settings of Topolog, and with changes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOPOLOG_", "TLS_"))}
    return {**kept, "XDG_STATE_HOME": "/nonexistent", "COLUMNS": "120", **changes}


def topolog(*arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``topolog`` and wait until it exits."""
    return run(["-m", "app.cli", *arguments], stdin=stdin, environ=environ)


def run(
    arguments: Sequence[str], *, stdin: str = "", environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python and wait until it exits."""
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
    """Write a kubeconfig for an API server and return its path; nothing listens at the default URL."""
    path = folder / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c,"
        f" clusters: [{{name: c, cluster: {{server: '{server}'}}}}], users: [{{name: u, user: {{}}}}],"
        " contexts: [{name: c, context: {cluster: c, user: u}}]}"
    )
    return str(path)
