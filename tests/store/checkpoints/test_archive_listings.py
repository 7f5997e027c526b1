"""How often an archive is listed whose listing takes long, as of a bucket with very many files."""

import pathlib
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest

from app.store import errors, stores
from app.store.checkpoints import archive_storage, archives
from tests.support.store import writers

LONG = 11.0
"""Seconds of the clock by hand."""


class Bucket(archive_storage.Folder):
    """A folder that counts its listings, and moves the clock in each."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path)
        self.now, self.listings, self.takes = 100.0, 0, LONG
        self.meanwhile: Callable[[], object] = lambda: None
        """Called in the midst of the next listing."""

    def names(self) -> Iterator[str]:
        """All names, the first one after half of the time."""
        self.listings += 1
        self.now += self.takes / 2
        listed, meanwhile = list(super().names()), self.meanwhile
        self.meanwhile = lambda: None
        yield from listed[:1]
        meanwhile()
        self.now += self.takes / 2
        yield from listed[1:]


class Archived:
    """Segments of one event each, 100 ms apart, with a checkpoint at 2, in a bucket."""

    def __init__(self, store: stores.Store, folder: pathlib.Path, count: int) -> None:
        self.store, self.bucket, self.own = store, Bucket(folder), store.log.incarnation
        self.written = 0
        self.archive, self.other = self.opened(), self.opened()
        self.write(count)
        self.bucket.write(f"checkpoint.{self.own}.{2:016d}.jsonl.gz", (b"-",))

    def opened(self) -> archives.Archive:
        """The archive as one process reads it."""
        return archives.Archive(
            self.bucket, self.store.keys.cluster, lambda: self.own, monotonic=lambda: self.bucket.now
        )

    def write(self, count: int) -> list[str]:
        """Segments that another process writes."""
        names = []
        for number in range(self.written, self.written + count):
            writers.facts(self.store.log, self.store.follower.catch_up(), [writers.seen(f"u{number}")])
            (raw,) = self.store.log.raws(number, number + 1)
            names.append(
                self.other.keep_segment([msgspec.structs.replace(raw, t=100 * raw.offset)], self.own)
            )
        self.written += count
        return names


@pytest.fixture
def archived(store: stores.Store, tmp_path: pathlib.Path) -> Archived:
    return Archived(store, tmp_path, 8)


def test_a_listing_that_takes_long_is_used_again_for_as_long(archived: Archived) -> None:
    archive, bucket = archived.archive, archived.bucket
    for after in range(8):
        assert archive.read(after, limit=1)[0].offset == after + 1
    assert [archive.bounds() for _ in range(3)] == 3 * [(1, [2])]
    assert [len(archive.history(kind)) for kind in ("segment", "checkpoint")] == [8, 1]
    assert archive.offset_at(450) == 4
    assert bucket.listings == 1
    bucket.now += LONG - 0.5
    archive.bounds()
    assert bucket.listings == 1
    bucket.now += 1.0
    archive.bounds()
    assert bucket.listings == 2


def test_a_short_one_is_used_again_for_ten_seconds(archived: Archived) -> None:
    """Then what was written and what was removed meanwhile are seen."""
    archive, bucket = archived.archive, archived.bucket
    bucket.takes = 0.1
    assert archive.bounds() == (1, [2])
    archived.write(1)
    bucket.remove(archive.history("segment")[0].name)
    bucket.now += 9.5
    assert archive.bounds() == (1, [2])
    bucket.now += 1.0
    assert archive.bounds() == (2, [2])
    assert [file.last for file in archive.history("segment")] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_what_was_written_since_is_read_and_found_by_its_time(archived: Archived) -> None:
    archive, bucket = archived.archive, archived.bucket
    assert archive.bounds() == (1, [2])
    archived.write(1)
    assert archive.offset_at(950) == 9
    assert bucket.listings == 2
    archived.write(1)
    assert archive.read_raw(10, 10)[0].offset == 10
    assert bucket.listings == 3


def test_what_is_nowhere_is_looked_for_in_one_listing(archived: Archived) -> None:
    with pytest.raises(errors.Trimmed):
        archived.archive.read(8, limit=1)
    assert archived.bucket.listings == 1


def test_what_the_process_itself_wrote_or_removed_is_listed_at_once(archived: Archived) -> None:
    archive, other = archived.archive, archived.other
    assert other.bounds() == archive.bounds() == (1, [2])
    (name,) = archived.write(1)
    assert other.history("segment")[-1].last == 9
    other.remove(name)
    assert other.history("segment")[-1].last == 8
    assert archived.bucket.listings == 4


def test_others_wait_for_a_listing_that_is_under_way(archived: Archived) -> None:
    """It takes long, but its names arrive: the storage is not away."""
    bucket, looked, found = archived.bucket, threading.Event(), list[tuple[int, list[int]]]()

    def monotonic() -> float:
        if threading.current_thread() is waiting:
            looked.set()
        return bucket.now

    archive = archives.Archive(bucket, archived.store.keys.cluster, lambda: archived.own, monotonic=monotonic)
    waiting = threading.Thread(target=lambda: found.append(archive.bounds()))

    def meanwhile() -> None:
        waiting.start()
        assert looked.wait(60)
        bucket.takes = 0.0  # The other one may have read the time before, and must not find a long silence.

    bucket.meanwhile = meanwhile
    assert archive.bounds() == (1, [2])
    waiting.join()
    assert found == [(1, [2])]
    assert bucket.listings == 1
