"""What a reader leaves in the store when it knows of more than the store holds, and who then may go on."""

import pytest

from app.domain import events
from app.store import errors, incarnations, logs, opening
from tests.store import writing

EARLIER, LATER = "000000000001-aa", "ffffffffffff-bb"


def fill(store: opening.Store, number: int) -> logs.Appended:
    return store.log.append(logs.Batch(events=[writing.seen(f"u{at}") for at in range(number)]))


def lost(store: opening.Store) -> incarnations.Known | None:
    return store.log.standing().lost


def known(
    store: opening.Store, offset: int, at_ms: int | None = 1, kept: int | None = None
) -> incarnations.Known:
    return incarnations.Known(store.log.incarnation, offset, at_ms, kept)


def test_what_the_log_holds_is_no_loss(store: opening.Store) -> None:
    appended = fill(store, 5)
    for offset, at_ms in ((5, appended.at_ms), (3, appended.at_ms), (5, None), (0, 7)):
        assert store.log.doubt(known(store, offset, at_ms))
    assert lost(store) is None


@pytest.mark.parametrize(("offset", "at_ms"), [(6, None), (5, 1), (3, 1)])
def test_what_the_log_does_not_hold_ends_all_reading_and_writing(
    store: opening.Store, offset: int, at_ms: int | None
) -> None:
    fill(store, 5)
    assert not store.log.doubt(known(store, offset, at_ms))
    assert lost(store) == known(store, offset, None, offset - 1)
    with pytest.raises(errors.Rewound):
        fill(store, 1)
    with pytest.raises(errors.Rewound):
        store.log.read(0)
    assert store.log.head().offset == 5


def test_of_several_the_widest_range_is_kept(store: opening.Store) -> None:
    fill(store, 5)
    for offset, kept in ((7, 6), (9, 4), (8, 2), (6, 5)):
        assert not store.log.doubt(known(store, offset, kept=kept))
    assert lost(store) == known(store, 9, None, 2)


def test_a_kept_entry_is_before_the_lost_one(store: opening.Store) -> None:
    fill(store, 5)
    assert not store.log.doubt(known(store, 7, kept=30))
    assert lost(store) == known(store, 7, None, 6)


def test_an_entry_that_is_trimmed_proves_nothing(store: opening.Store) -> None:
    fill(store, 5)
    store.client.xtrim(store.keys.log, minid="4-0", approximate=False)
    assert store.log.doubt(known(store, 2))
    assert not store.log.doubt(known(store, 4))


@pytest.mark.parametrize(
    ("here", "theirs", "noted"),
    [
        (EARLIER, LATER, True),
        (LATER, EARLIER, False),
        (EARLIER, "somebody", False),
        ("somebody", LATER, False),
    ],
)
def test_a_reader_of_another_incarnation_is_believed_if_that_is_known_to_be_later(
    store: opening.Store, here: str, theirs: str, noted: bool
) -> None:
    fill(store, 5)
    store.client.hset(store.keys.meta, "incarnation", here)
    assert not store.log.doubt(incarnations.Known(theirs, 3, 1))
    assert lost(store) == (incarnations.Known(theirs, 3, kept=2) if noted else None)


def test_of_two_incarnations_the_later_loss_is_noted(store: opening.Store) -> None:
    fill(store, 5)
    store.client.hset(store.keys.meta, "incarnation", EARLIER)
    store.log.follow(EARLIER)
    middle = "7fffffffffff-cc"
    for theirs, expected in ((EARLIER, EARLIER), (middle, middle), (LATER, LATER), (middle, LATER)):
        assert not store.log.doubt(incarnations.Known(theirs, 9, 1))
        assert lost(store) == incarnations.Known(expected, 9, kept=8)


def test_a_writer_that_knows_more_notes_it(store: opening.Store) -> None:
    fill(store, 5)
    store.log.note(known(store, 8, 1))
    with pytest.raises(errors.Rewound):
        fill(store, 1)
    assert lost(store) == known(store, 8, None, 7)


def test_a_new_incarnation_ends_the_doubt_and_forgets_checkpoints(store: opening.Store) -> None:
    fill(store, 5)
    store.log.append(logs.Batch(events=(), marks={"rv:pods": "9"}))
    former = store.log.incarnation
    assert not store.log.doubt(known(store, 8))
    event = events.StoreRewound(former, 6, 8, "a test", by="me", relisting=("pods",))
    guard = logs.Guard(epoch="12", writer="me")
    assert store.log.rewind(event, LATER, found=former, guard=guard)
    standing = store.log.standing()
    assert (standing.incarnation, standing.former, standing.head) == (LATER, former, 6)
    assert (standing.epoch, standing.writer, standing.lost) == ("12", "me", None)
    assert standing.recorded_ms > 0
    assert store.log.marks() == {}
    store.log.follow(LATER)
    (entry,) = store.log.read(5)
    assert entry.event == event
    assert store.log.versions()[event.subject] == 6
    # A second one finds another incarnation, and one of a lower epoch, or of another with the same, none.
    assert store.log.rewind(event, LATER, found=former, guard=guard)
    assert not store.log.rewind(event, "ffffffffffff-cc", found=former, guard=guard)
    for epoch, writer in (("11", "me"), ("12", "you"), ("9", "me")):
        with pytest.raises(errors.Fenced):
            store.log.rewind(
                event, "ffffffffffff-cc", found=LATER, guard=logs.Guard(epoch=epoch, writer=writer)
            )
    assert store.log.standing().incarnation == LATER
