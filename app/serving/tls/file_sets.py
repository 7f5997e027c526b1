"""Replaces a set of files as a whole, because a key without its certificate is of no use.

The new files are written to a folder beside the former ones. It is renamed once all of them are on the disk,
and only then are they moved. An error before the rename changes nothing. After it, `complete` moves what an
error, a kill or a power failure has left.
"""

import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Final

_BEGUN: Final = ".begun"
_WRITTEN: Final = ".written"


def replace(folder: pathlib.Path, contents: Mapping[str, bytes]) -> None:
    """Write the files (name -> content), readable only by their owner, after `complete`. Raises OSError."""
    begun = folder / _BEGUN
    shutil.rmtree(begun, ignore_errors=True)
    try:
        begun.mkdir(mode=0o700)
        for name, content in contents.items():
            _write(begun / name, content)
        _flush(begun)
        begun.replace(folder / _WRITTEN)
    except BaseException:
        shutil.rmtree(begun, ignore_errors=True)
        raise
    complete(folder)


def complete(folder: pathlib.Path) -> None:
    """Move the files that an interrupted call of `replace` has written, but not moved. Raises OSError."""
    written = folder / _WRITTEN
    if not written.exists():
        return
    _flush(folder)
    for path in sorted(written.iterdir()):
        path.replace(folder / path.name)
    _flush(folder)
    written.rmdir()


def _write(path: pathlib.Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: pathlib.Path) -> None:
    """Flush the entries of a folder to the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
