"""The bounds of an archive while a call of its storage has no answer."""

import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterator
from unittest import mock

import pytest

from app.store import errors, stores
from app.store.checkpoints import archive_files, archive_storage, archives
from tests.support.store import writers


class Archived:
    """An archive with one segment, and a clock that moves by hand."""

    def __init__(self, store: stores.Store, folder: pathlib.Path) -> None:
        self.now = 100.0
        own = store.log.incarnation
        storage = archive_storage.Folder(folder)
        self.archive = archives.Archive(storage, store.keys.cluster, lambda: own, monotonic=lambda: self.now)
        writers.facts(store.log, store.follower.catch_up(), [writers.seen("u1")])
        (self.file,) = [archive_files.parsed(self.archive.keep_segment(store.log.raws(0, 1), own))]
        assert self.archive.bounds() == (1, [])


@pytest.fixture
def archived(store: stores.Store, tmp_path: pathlib.Path) -> Archived:
    return Archived(store, tmp_path)


@contextlib.contextmanager
def unanswered(operation: str, call: Callable[[], object]) -> Iterator[None]:
    """A call that reaches this operation of the folder, which returns only at the end of the block."""
    called, answering = threading.Event(), threading.Event()
    original = getattr(archive_storage.Folder, operation)

    def blocked(*given: object) -> object:
        called.set()
        assert answering.wait(60)
        return original(*given)

    with mock.patch.object(archive_storage.Folder, operation, blocked):
        waiting = threading.Thread(target=call)
        waiting.start()
        try:
            assert called.wait(60)
            yield
        finally:
            answering.set()
            waiting.join()


def test_they_wait_for_no_storage_that_does_not_list(archived: Archived) -> None:
    """As a mounted volume whose server is gone; a listing of the last seconds is used meanwhile."""
    with unanswered("names", archived.archive.files):
        archived.now += 9.0
        assert archived.archive.bounds() == (1, [])
        archived.now += 2.0
        with pytest.raises(errors.ArchiveAway, match="cannot be listed: no answer for 5 s"):
            archived.archive.bounds()
    assert archived.archive.bounds() == (1, [])


def test_they_are_listed_while_a_read_takes_long(archived: Archived) -> None:
    """As of a large file in an object store that is far away."""
    file = archived.file
    assert file is not None
    with unanswered("size", lambda: archived.archive.size(file)):
        archived.now += 60.0
        assert archived.archive.waiting == 60.0
        assert archived.archive.bounds() == (1, [])
