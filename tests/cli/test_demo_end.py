"""``topolog demo`` that is ended from outside leaves no process behind."""

import pathlib
import signal
import subprocess
import sys

import pytest

from tests.support import commands, polling


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_demo(tmp_path: pathlib.Path, number: signal.Signals) -> None:
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
        children = descendants(demo.pid)
        names = " ".join(map(command, children))
        for part in ("app.cli up", "app.cli extender", "app.cli view", "workers record", "-server "):
            assert part in names
        demo.send_signal(number)
        demo.communicate(timeout=60)
        code = demo.returncode
        polling.eventually(lambda: not any(map(command, children)), "no child lives", within=60.0)
    finally:
        demo.kill()
        demo.communicate()
    assert code == (130 if number == signal.SIGTERM else -number)
    # A killed process removes nothing itself: its certificates stay, but not the data of its store.
    left = [path.name for path in folder.iterdir()]
    assert len(left) == (number == signal.SIGKILL), left
    assert all(name.startswith("topolog-demo-") for name in left)


def descendants(pid: int) -> list[int]:
    """The processes that were started by one, or by one of these."""
    listed = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for path in listed for child in path.read_text().split()]
    return [*children, *(each for child in children for each in descendants(child))]


def command(pid: int) -> str:
    """The command line of a process; empty once it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except FileNotFoundError:
        return ""
