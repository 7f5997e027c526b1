"""Runs the command line with a clean environment: in a process of its own, or quicker in this one."""

import contextlib
import io
import logging
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from unittest import mock

from app import cli


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of the test without settings of Topolog, and with changes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOPOLOG_", "TLS_"))}
    return {**kept, "XDG_STATE_HOME": "/proc/nonexistent", "COLUMNS": "120", **changes}


def called(*arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``topolog`` in this process until it exits.

    For commands that end by themselves and leave no threads. What it writes, its exit code and its
    environment are those of a process of its own, whose start would take most of the time.
    """
    out, err = _stream(), _stream()
    code: object = None
    with (
        mock.patch.dict(os.environ, environment(environ), clear=True),
        mock.patch.object(sys, "argv", ["topolog", *arguments]),
        mock.patch.object(sys, "stdin", _stream(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _logging_kept(),
    ):
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int), code
    return subprocess.CompletedProcess(["topolog", *arguments], code, _text(out), _text(err))


def _stream(text: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def _logging_kept() -> Iterator[None]:
    """The handlers and the level of pytest, which a command replaces by its own."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)


def topolog(*arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run ``topolog`` in a process of its own and wait until it exits."""
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
