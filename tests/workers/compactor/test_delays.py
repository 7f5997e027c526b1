"""What a compactor does once a reader, or the archive, has delayed it."""

import threading
from unittest import mock

import pytest

from app import settings
from app.store import errors, stores
from app.store.server import embedded
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
        store.client.hset(store.keys.readers, "slow", f"15 {10**15}")
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
