"""No process outlives the test run that started it."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.support import polling

ROOT = pathlib.Path(__file__).parents[2]
_TEST = """
    import os, pathlib, subprocess, time
    from tests.support.store import servers

    def test_it_waits_forever(tmp_path):
        server = servers.Server(tmp_path / "server")
        apart = subprocess.Popen(["sleep", "600"], start_new_session=True)
        child = "subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=subprocess.DEVNULL)"
        code = f"import subprocess; print({{child}}.pid)"
        orphan = int(subprocess.check_output([{python!r}, "-c", code]))
        found = pathlib.Path({pids!r})
        found.with_suffix(".part").write_text(f"{{os.getpid()}} {{server.pid}} {{apart.pid}} {{orphan}}")
        found.with_suffix(".part").rename(found)
        time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("workers", ["0", "1"])
def test_children_end_with_the_test_run(tmp_path: pathlib.Path, number: signal.Signals, workers: str) -> None:
    pids = tmp_path / "pids"
    test = tmp_path / "test_it.py"
    test.write_text(textwrap.dedent(_TEST).format(python=sys.executable, pids=str(pids)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.reaper", "-p", "no:cacheprovider"]
    command += ["--numprocesses", workers, f"--rootdir={tmp_path}", "-c", os.devnull, str(test)]
    run = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        polling.eventually(pids.exists, "the test waits", within=60.0)
        children = list(map(int, pids.read_text().split()))
        assert all(map(_lives, children))
        run.send_signal(number)
        run.wait(30)
        polling.eventually(lambda: not any(map(_lives, children)), "no child lives")
    finally:
        run.kill()
        run.wait()


def _lives(pid: int) -> bool:
    """Whether it runs; one that waits to be reaped does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
