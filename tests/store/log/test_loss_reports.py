"""Reports of lost entries in the store, and which processes may then continue."""

import pytest

from app.domain import events
from app.store import errors, stores
from app.store.log import batches, incarnations
from tests.support.store import materialised, writers

EARLIER, LATER = "000000000001-aa", "ffffffffffff-bb"


def fill(store: stores.Store, number: int) -> batches.Appended:
    return store.log.append(batches.Batch(events=[writers.seen(f"u{at}") for at in range(number)]))


def lost(store: stores.Store) -> incarnations.Watermark | None:
    return store.log.state().lost


def known(
    store: stores.Store, offset: int, at_ms: int | None = 1, kept: int | None = None
) -> incarnations.Watermark:
    return incarnations.Watermark(store.log.incarnation, offset, at_ms, kept)


def test_an_entry_that_the_log_holds_is_not_recorded_as_lost(store: stores.Store) -> None:
    appended = fill(store, 5)
    for offset, at_ms in ((5, appended.at_ms), (3, appended.at_ms), (5, None), (0, 7)):
        assert store.log.report_loss(known(store, offset, at_ms))
    assert lost(store) is None


@pytest.mark.parametrize(("offset", "at_ms"), [(6, None), (5, 1), (3, 1)])
def test_what_the_log_does_not_hold_ends_all_reading_and_writing(
    store: stores.Store, offset: int, at_ms: int | None
) -> None:
    fill(store, 5)
    assert not store.log.report_loss(known(store, offset, at_ms))
    assert lost(store) == known(store, offset, None, offset - 1)
    with pytest.raises(errors.Rewound):
        fill(store, 1)
    with pytest.raises(errors.Rewound):
        store.log.read(0)
    assert store.log.head().offset == 5


def test_of_several_reported_losses_the_widest_range_is_kept(store: stores.Store) -> None:
    fill(store, 5)
    for offset, kept in ((7, 6), (9, 4), (8, 2), (6, 5)):
        assert not store.log.report_loss(known(store, offset, kept=kept))
    assert lost(store) == known(store, 9, None, 2)


def test_a_kept_entry_is_before_the_lost_one(store: stores.Store) -> None:
    fill(store, 5)
    assert not store.log.report_loss(known(store, 7, kept=30))
    assert lost(store) == known(store, 7, None, 6)


def test_an_entry_that_is_trimmed_proves_nothing(store: stores.Store) -> None:
    fill(store, 5)
    store.client.xtrim(store.keys.log, minid="4-0", approximate=False)
    assert store.log.report_loss(known(store, 2))
    assert not store.log.report_loss(known(store, 4))


@pytest.mark.parametrize(
    ("here", "theirs", "noted"),
    [
        (EARLIER, LATER, True),
        (LATER, EARLIER, False),
        (EARLIER, "other", False),
        ("other", LATER, False),
    ],
)
def test_a_loss_report_from_another_incarnation_counts_if_that_is_later(
    store: stores.Store, here: str, theirs: str, noted: bool
) -> None:
    fill(store, 5)
    store.client.hset(store.keys.meta, "incarnation", here)
    assert not store.log.report_loss(incarnations.Watermark(theirs, 3, 1))
    assert lost(store) == (incarnations.Watermark(theirs, 3, kept=2) if noted else None)


def test_of_two_incarnations_the_later_loss_is_noted(store: stores.Store) -> None:
    fill(store, 5)
    store.client.hset(store.keys.meta, "incarnation", EARLIER)
    store.log.follow(EARLIER)
    middle = "7fffffffffff-cc"
    for theirs, expected in ((EARLIER, EARLIER), (middle, middle), (LATER, LATER), (middle, LATER)):
        assert not store.log.report_loss(incarnations.Watermark(theirs, 9, 1))
        assert lost(store) == incarnations.Watermark(expected, 9, kept=8)


def test_a_writer_that_has_seen_a_lost_entry_records_the_loss(store: stores.Store) -> None:
    fill(store, 5)
    store.log.note(known(store, 8, 1))
    with pytest.raises(errors.Rewound):
        fill(store, 1)
    assert lost(store) == known(store, 8, None, 7)


def test_a_new_incarnation_clears_the_loss_and_the_resume_versions(store: stores.Store) -> None:
    fill(store, 5)
    store.log.append(batches.Batch(events=(), marks={"rv:pods": "9"}))
    former = store.log.incarnation
    assert not store.log.report_loss(known(store, 8))
    event = events.StoreRewound(former, 6, 8, "a test", by="me", relisting=("pods",))
    guard = batches.Guard(epoch="12", writer="me")
    assert store.log.rewind(event, LATER, found=former, guard=guard)
    state = store.log.state()
    assert (state.incarnation, state.former, state.head) == (LATER, former, 6)
    assert (state.epoch, state.writer, state.lost) == ("12", "me", None)
    assert state.recorded_ms > 0
    assert store.log.resume_versions() == {}
    store.log.follow(LATER)
    (entry,) = store.log.read(5)
    assert entry.event == event
    assert materialised.versions(store)[event.subject] == 6
    # A second one finds another incarnation, and one of a lower epoch, or of another with the same, none.
    assert store.log.rewind(event, LATER, found=former, guard=guard)
    assert not store.log.rewind(event, "ffffffffffff-cc", found=former, guard=guard)
    for epoch, writer in (("11", "me"), ("12", "you"), ("9", "me")):
        with pytest.raises(errors.Fenced):
            store.log.rewind(
                event, "ffffffffffff-cc", found=LATER, guard=batches.Guard(epoch=epoch, writer=writer)
            )
    assert store.log.state().incarnation == LATER
