"""Temporary folders that do not outlast the next run, even if the process that made one was killed.

A folder is locked while its process lives. A process that makes another one of the same kind removes the
folders of processes that are gone: they may hold keys.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Final

_LOCK: Final = "in-use"
_UNLOCKED: Final = "new"


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[pathlib.Path]:
    """A folder that only this user can read, until the block ends; removes those that dead processes left."""
    parent = pathlib.Path(tempfile.gettempdir())
    for path in parent.glob(f"{prefix}*"):
        _remove_if_left(path)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
    try:
        # It is closed in every child process, so the lock ends with this one.
        with (folder / _UNLOCKED).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another start that saw the file before it is locked would remove the folder.
            (folder / _UNLOCKED).rename(folder / _LOCK)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_if_left(path: pathlib.Path) -> None:
    """Remove a folder of this user whose process is gone."""
    try:
        if path.lstat().st_uid != os.geteuid():
            return
        # One without the file was made a moment ago, or is of another origin.
        descriptor = os.open(path / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
