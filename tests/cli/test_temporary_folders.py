"""Folders of a run: removed with it, or by the next one if it was killed."""

import fcntl
import pathlib
import subprocess
import sys
import tempfile
from typing import BinaryIO

import pytest

from app import temporary_folders
from tests.support import commands

PREFIX = "topolog-test-"
RUN = f"""
import sys
from app import temporary_folders
with temporary_folders.temporary_folder("{PREFIX}") as folder:
    (folder / "key").write_text("secret")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def parent(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def running(parent: pathlib.Path) -> tuple["subprocess.Popen[str]", pathlib.Path]:
    """A process with a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN],
        env=commands.environment({"TMPDIR": str(parent)}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, pathlib.Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(parent: pathlib.Path) -> None:
    killed, left = running(parent)
    living, used = running(parent)
    killed.kill()
    killed.communicate()
    assert (left / "key").exists()
    with temporary_folders.temporary_folder(PREFIX) as own:
        assert {*parent.iterdir()} == {used, own}
        assert (used / "key").read_text() == "secret"
        assert own.stat().st_mode & 0o777 == 0o700
    assert [*parent.iterdir()] == [used]
    living.communicate("")
    assert living.returncode == 0
    assert not used.exists()


def test_a_folder_that_is_about_to_be_locked_stays(
    parent: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locking = fcntl.flock

    def lock_late(file: BinaryIO, how: int) -> None:
        """Another process starts between the creation of the file and its lock."""
        monkeypatch.setattr(fcntl, "flock", locking)
        other, _ = running(parent)
        other.communicate("")
        locking(file, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with temporary_folders.temporary_folder(PREFIX) as own:
        assert [*parent.iterdir()] == [own]
    assert [*parent.iterdir()] == []


def test_what_is_of_another_origin_stays(parent: pathlib.Path) -> None:
    (parent / f"{PREFIX}made").mkdir()
    (parent / f"{PREFIX}file").touch()
    elsewhere = parent / "elsewhere"
    elsewhere.touch()
    (parent / f"{PREFIX}linked").mkdir()
    (parent / f"{PREFIX}linked" / "in-use").symlink_to(elsewhere)
    before = {*parent.rglob("*")}
    with temporary_folders.temporary_folder(PREFIX):
        pass
    assert {*parent.rglob("*")} == before
