"""Where a replay starts: at the store's own checkpoints, and at the archive's if the log needs them."""

import pathlib
from unittest import mock

import pytest

from app import settings
from app.store import errors, stores
from app.store.server import embedded
from tests.support.workers import compactions
from workers.compactor import compactors

ASKED = AssertionError("the archive is asked, and may not answer")


@pytest.mark.parametrize("covered", [False, True])
def test_a_follower_that_the_store_suffices_for_asks_no_archive(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path, covered: bool
) -> None:
    past = compactions.History(store)
    past.go_on(30)
    if covered:
        compactors.Compactor(store, settings.Compaction(events=20, keep=0, checkpoints=3)).run_once()
        assert store.log.oldest() == 30
    past.go_on(10)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        assert other.archive is not None
        with mock.patch.object(other.archive.storage, "names", side_effect=ASKED):
            assert other.follower.catch_up().offset == 40
            store.log.report_loss(store.log.seen._replace(offset=45))
            past.begin_incarnation(45)
            assert other.follower.catch_up().offset == 41
            begun = other.recovery_points.newest(indexed=frozenset())
    assert begun.snapshot.offset == (30 if covered else 0)


def test_a_follower_of_a_trimmed_log_starts_from_the_archive_if_the_store_has_no_checkpoint(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past, options = compactions.History(store), settings.Compaction(events=20, keep=0, checkpoints=3)
    past.go_on(30)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        compactors.Compactor(other, options).run_once()
    (header,) = store.checkpoints.headers()
    store.client.delete(store.keys.checkpoint(30, header.parts, 0))
    past.go_on(10)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        assert other.follower.catch_up().offset == 40
    with compactions.reopened(store, store_server) as other, pytest.raises(errors.Trimmed):
        other.follower.catch_up()


@pytest.mark.parametrize("trimmed", [False, True])
def test_the_past_that_log_and_store_cover_asks_no_archive(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path, trimmed: bool
) -> None:
    past = compactions.History(store)
    past.go_on(30)
    if trimmed:
        compactors.Compactor(store, settings.Compaction(events=20, keep=0, checkpoints=3)).run_once()
    past.go_on(10)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        assert other.archive is not None
        other.follower.catch_up()
        with mock.patch.object(other.archive.storage, "names", side_effect=ASKED):
            assert [other.histories.at(offset).offset for offset in (35, 33, 38, 30)] == [35, 33, 38, 30]
            first = 30 if trimmed else 3
            assert (other.histories.oldest(first), other.histories.reachable(first)) == (first, first)
            assert other.histories.readable(first) == first
            if trimmed:
                with pytest.raises(AssertionError, match="asked"):
                    other.histories.oldest(29)
                with pytest.raises(AssertionError, match="asked"):
                    other.histories.reachable(29)


def test_a_snapshot_that_only_the_archive_continues_is_left_for_a_checkpoint_of_the_store(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    """A process has it from before the log was trimmed."""
    past = compactions.History(store)
    past.go_on(30)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        assert other.archive is not None
        compactors.Compactor(other, settings.Compaction(events=20, keep=0, checkpoints=3)).run_once()
        past.go_on(10)
        assert other.log.oldest() == 30
        with mock.patch.object(other.archive.storage, "names", side_effect=ASKED):
            found = other.recovery_points.not_after(33, indexed=frozenset(), better_than=28)
            assert other.recovery_points.not_after(33, indexed=frozenset(), better_than=32) is None
    assert found is not None
    assert found.snapshot.offset == 30
