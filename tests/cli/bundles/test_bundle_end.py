"""``topolog bundle open`` that is ended from outside leaves no process behind."""

import pathlib
import signal
import subprocess
import sys

import pytest

from tests.support import commands, polling, process_trees


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_an_opened_bundle(
    incident: pathlib.Path, tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    opened = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "bundle", "open", str(incident), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env=commands.environment({"TMPDIR": str(tmp_path)}),
    )
    try:
        assert opened.stdout is not None
        assert any("Ctrl-C" in line for line in opened.stdout)
        children = process_trees.descendants(opened.pid)
        names = " ".join(map(process_trees.command, children))
        assert "app.cli view" in names
        assert "-server " in names
        opened.send_signal(number)
        opened.wait(60)
        polling.eventually(
            lambda: not any(map(process_trees.command, children)), "no child lives", within=60.0
        )
    finally:
        opened.kill()
        opened.communicate()
    if number == signal.SIGTERM:
        assert not list(tmp_path.glob("topolog-bundle-*"))
