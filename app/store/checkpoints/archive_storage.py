"""Stores the files of an archive: five operations, and the directory that has them.

An archive needs no more of an object store than this. A name that is listed belongs to a complete file: a
write takes effect as a whole or not at all, and may be repeated.
"""

import contextlib
import itertools
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from app.settings import archive_urls
from app.store import errors

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}")
_LONGEST_WRITE = 86_400.0
"""Seconds after which an unfinished file is taken for abandoned."""


class Storage(Protocol):
    """The files of one cluster's archive, by name. Failures are OSErrors.

    An operation may block for as long as a file system does whose server is away.
    """

    def __str__(self) -> str:
        """The place, for display."""

    def names(self) -> Iterable[str]:
        """All names as they arrive, in any order; none if nothing was ever written."""

    def read(self, name: str, *, first: int | None = None) -> bytes:
        """The content, or its first bytes; raises FileNotFoundError."""

    def size(self, name: str) -> int:
        """Bytes; raises FileNotFoundError."""

    def write(self, name: str, members: Iterable[bytes]) -> None:
        """Store a file durably and as a whole; replaces one of this name."""

    def remove(self, name: str) -> None:
        """Remove a file; one that does not exist is not an error."""


class Folder:
    """A directory. It is created by the first write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def names(self) -> Iterator[str]:
        """All names of complete files."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._path) as found:
            yield from (file.name for file in found if not file.name.startswith("."))

    def read(self, name: str, *, first: int | None = None) -> bytes:
        """The content, or its first bytes."""
        with (self._path / name).open("rb") as file:
            return file.read(-1 if first is None else first)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return (self._path / name).stat().st_size

    def write(self, name: str, members: Iterable[bytes]) -> None:
        """Write under another name, flush to the disk, then rename."""
        self._create()
        self._remove_unfinished()
        # A leader that was paused may write beside its successor: in another pod it has the same pid.
        passing = self._path / f".{name}.{secrets.token_hex(8)}"
        try:
            with passing.open("wb") as file:
                for member in members:
                    file.write(member)
                file.flush()
                os.fsync(file.fileno())
            passing.rename(self._path / name)
            _flush(self._path)
        finally:
            with contextlib.suppress(OSError):
                passing.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self._path / name).unlink(missing_ok=True)

    def _remove_unfinished(self) -> None:
        """Remove what a process that was killed has left unfinished."""
        before = time.time() - _LONGEST_WRITE
        with os.scandir(self._path) as found:
            for file in found:
                if _UNFINISHED.fullmatch(file.name):
                    with contextlib.suppress(OSError):  # It may be finished by now.
                        if file.stat().st_mtime < before:
                            self.remove(file.name)

    def _create(self) -> None:
        """Create the directory and those above it; each is an entry of another one, which is flushed."""
        above = (self._path, *self._path.parents)
        missing = list(itertools.takewhile(lambda one: not one.exists(), above))
        self._path.mkdir(parents=True, exist_ok=True)
        for one in missing:
            _flush(one.parent)


def _flush(folder: Path) -> None:
    """Flush the entries of a directory to the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def opened(place: str, cluster: str) -> Storage:
    """The storage that ``compaction.archive`` names; nothing is called yet.

    Raises StoreError if it cannot be used, such as a URL without the package obstore.
    """
    flaw = archive_urls.flaw(place)
    if flaw:
        raise errors.StoreError(f"compaction.archive {flaw}")
    directory = archive_urls.directory(place)
    if directory:
        return Folder(Path(directory) / cluster)
    try:
        from app.store.checkpoints import object_storage
    except ModuleNotFoundError as missing:
        if missing.name != "obstore":
            raise
        raise errors.StoreError(
            "compaction.archive is the URL of an object store, which needs the package obstore:"
            " install topolog[archive]"
        ) from None
    return object_storage.opened(place, cluster)
