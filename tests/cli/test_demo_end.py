"""``topolog demo`` that is ended from outside leaves no process behind."""

import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from app import temporary_folders
from tests.support import commands, polling, process_trees


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_demo(
    tmp_path: pathlib.Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    demo = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "demo", "--end"],
        env=commands.environment({"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert demo.stdout is not None
        # The first outcome: everything runs.
        assert any(" ok " in line for line in demo.stdout)
        children = process_trees.descendants(demo.pid)
        names = " ".join(map(process_trees.command, children))
        for part in ("app.cli up", "app.cli extender", "app.cli view", "workers record", "-server "):
            assert part in names
        demo.send_signal(number)
        demo.communicate(timeout=60)
        code = demo.returncode
        polling.eventually(
            lambda: not any(map(process_trees.command, children)), "no child lives", within=60.0
        )
    finally:
        demo.kill()
        demo.communicate()
    assert code == (130 if number == signal.SIGTERM else -number)
    # A killed process removes nothing itself: its certificates stay until the next run, but not the data of
    # its store.
    left = [path.name for path in folder.iterdir()]
    assert len(left) == (number == signal.SIGKILL), left
    assert all(name.startswith("topolog-demo-") for name in left)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with temporary_folders.temporary_folder("topolog-demo-") as another:
        assert list(folder.iterdir()) == [another]
