"""What a compactor does once a reader, or the archive, has delayed it."""

import dataclasses
import itertools
import pathlib
import threading
from collections.abc import Iterator
from unittest import mock

import pytest

from app import settings
from app.store import errors, stores
from app.store.checkpoints import archive_storage, archives
from app.store.server import embedded, memory_use
from tests.support.workers import compactions, recordings
from workers.compactor import compactors


def test_a_checkpoint_that_is_damaged_while_a_trim_waits_for_a_reader_trims_nothing(
    store: stores.Store, store_server: embedded.Server
) -> None:
    past, clock, options = (
        compactions.History(store),
        mock.Mock(return_value=100.0),
        settings.Compaction(events=20, seconds=10**6, keep=0),
    )
    with compactions.reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, options, monotonic=clock)
        past.go_on(40)
        store.client.hset(store.keys.readers, "slow", f"15 {store.log.state().now_ms}")
        compactor.run_once()
        (header,) = other.checkpoints.headers()
        store.client.delete(store.keys.checkpoint(40, header.parts, 0))
        store.client.hset(store.keys.readers, "slow", "15 1")
        clock.return_value += 3600
        compactor.run_once()
        assert store.log.oldest() == 1
        assert other.checkpoints.headers() == []


def test_a_problem_of_the_archive_ends_only_once_the_archive_is_extended(
    store: stores.Store, store_server: embedded.Server, archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactors, "EVERY", 0.01)
    compactions.History(store).go_on(25)
    with compactions.reopened(store, store_server, archive) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=1000, seconds=10**6, keep=0))
        running = threading.Thread(target=compactor.run)
        assert other.archive is not None
        other.follower.catch_up()
        snapshot, at_ms = other.follower.dated()
        assert at_ms is not None
        other.checkpoints.write(snapshot, at_ms)
        listed = mock.patch.object(other.archive, "latest", side_effect=errors.ArchiveAway("refused"))
        with listed, mock.patch.object(other.checkpoints, "headers", wraps=other.checkpoints.headers) as read:
            running.start()
            try:
                recordings.eventually(lambda: compactor.checks()["archive"] == "refused", "it is shown")
                read.side_effect = lambda: []  # Without a checkpoint a run archives nothing.
                before = read.call_count
                recordings.eventually(lambda: read.call_count > before + 2, "it continues")
                assert compactor.checks()["archive"] == "refused"
            finally:
                compactor.stop()
                running.join()


class Clock:
    """Passes in the waits of a compactor only, which ends after ``lasting`` seconds."""

    def __init__(self, lasting: float) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self._end = lasting

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return self.now >= self._end


def compacted(store: stores.Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> compactors.Compactor:
    """A compactor that has run for the time of the clock."""
    options = settings.Compaction(events=20, seconds=10**6, keep=0)
    compactor = compactors.Compactor(store, options, monotonic=lambda: clock.now)
    monkeypatch.setattr(compactor, "_stopped", clock)
    compactor.run()
    return compactor


def test_an_archive_that_does_not_answer_is_reported(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    called, answering, clock = threading.Event(), threading.Event(), mock.Mock(return_value=100.0)

    class Silent(archive_storage.Folder):
        def names(self) -> Iterator[str]:
            called.set()
            answering.wait()
            return super().names()

    compactions.History(store).go_on(25)
    with compactions.reopened(store, store_server) as other:
        archive = archives.Archive(
            Silent(tmp_path), other.keys.cluster, lambda: other.log.incarnation, monotonic=clock
        )
        options = settings.Compaction(events=20, keep=0, checkpoints=3)
        compactor = compactors.Compactor(dataclasses.replace(other, archive=archive), options)
        running = threading.Thread(target=compactor.run)
        running.start()
        try:
            assert called.wait(60)
            assert compactor.checks()["archive"] is None
            clock.return_value += 121.0
            assert compactor.checks()["archive"] == "no answer for 121 s"
            assert store.log.oldest() == 1
        finally:
            compactor.stop()
            answering.set()
            running.join()
        assert compactor.checks()["archive"] is None
        assert store.log.oldest() == 25


def test_checkpoints_are_thinned_while_the_archive_is_away(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    away = True

    class Refusing(archive_storage.Folder):
        def names(self) -> Iterator[str]:
            if away:
                raise OSError("refused")
            return super().names()

    past, clock, kept = compactions.History(store), Clock(10.0), list[list[int]]()

    def wait(seconds: float) -> bool:
        kept.append([header.offset for header in store.checkpoints.headers()])
        past.go_on(20)
        return clock.wait(seconds)

    with compactions.reopened(store, store_server) as other:
        archive = archives.Archive(Refusing(tmp_path), other.keys.cluster, lambda: other.log.incarnation)
        options = settings.Compaction(events=20, seconds=10**6, keep=0, checkpoints=3)
        compactor = compactors.Compactor(
            dataclasses.replace(other, archive=archive), options, monotonic=lambda: clock.now
        )
        with mock.patch.object(compactor, "_stopped", mock.Mock(wait=wait)):
            compactor.run()
        newest = kept[-1][0]
        assert newest >= 200
        assert kept[-1] == [newest, newest - 20, 20]
        assert max(map(len, kept)) == 3
        assert store.log.oldest() == 1
        away = False
        clock.now += 60.0
        compactor.run_once()
        newest += 20
        segment = archive.latest(archive.files())
        assert segment is not None
        assert (segment.first, segment.last) == (1, newest)
        assert store.log.oldest() == newest
        assert [header.offset for header in store.checkpoints.headers()] == [newest]


def filling() -> Iterator[memory_use.Memory]:
    """The memory of a server: half of what is free is taken between any two measurements."""
    limit = 1 << 1000
    return (memory_use.Memory(limit - (limit >> number), limit) for number in itertools.count(3))


def test_memory_is_measured_and_reported_while_the_archive_is_away(
    store: stores.Store,
    store_server: embedded.Server,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compactions.History(store).go_on(25)
    clock, tried = Clock(10.0), list[float]()

    def files() -> None:
        tried.append(clock.now)
        raise errors.ArchiveAway("refused")

    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        assert other.archive is not None
        monkeypatch.setattr(other.archive, "files", files)
        monkeypatch.setattr(other.memory_use, "memory", filling().__next__)
        checks = compacted(other, clock, monkeypatch).checks()
    assert (checks["archive"], checks["store"]) == ("refused", None)
    assert "nothing more can be trimmed" in str(checks["memory"])
    assert max(clock.waits[5:]) == 0.1
    pauses = [after - before for before, after in itertools.pairwise(tried)]
    assert pauses == pytest.approx([2.0, 4.0], abs=0.2), "the archive is tried after growing pauses"


def test_a_store_that_was_away_is_no_problem_once_the_archive_alone_is(
    store: stores.Store,
    store_server: embedded.Server,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compactions.History(store).go_on(25)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        assert other.archive is not None
        away, owner = iter([errors.away("refused")]), other.log.check_owner

        def check_owner() -> None:
            for problem in away:
                raise problem
            owner()

        monkeypatch.setattr(other.log, "check_owner", check_owner)
        monkeypatch.setattr(other.archive, "latest", mock.Mock(side_effect=errors.ArchiveAway("closed")))
        checks = compacted(other, Clock(4.0), monkeypatch).checks()
    assert (checks["archive"], checks["store"]) == ("closed", None)


def test_a_store_that_is_full_is_asked_for_a_checkpoint_after_growing_pauses(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    compactions.History(store).go_on(25)
    clock = Clock(60.0)
    monkeypatch.setattr(store.memory_use, "memory", filling().__next__)
    monkeypatch.setattr(store.checkpoints, "write", mock.Mock(side_effect=errors.away("full")))
    checks = compacted(store, clock, monkeypatch).checks()
    assert checks["store"] == "the store is away: full"
    assert clock.waits == [0.0, 2.0, 4.0, 8.0, 16.0, 30.0]
