"""The times that a reader remembers, added entry by entry or in large parts."""

import pytest

from app.store.log import loss_detection

LENGTH = 5_000


@pytest.mark.parametrize("part", [1, 7, 300, 2_500])
@pytest.mark.parametrize("kept", [0, 1, 2_499, LENGTH - 1, LENGTH])
def test_the_first_entry_that_differs_is_found(part: int, kept: int) -> None:
    memory = loss_detection.TimestampHistory()
    for after in range(0, LENGTH, part):
        memory.add(after, [1_000 + at for at in range(after + 1, min(after + part, LENGTH) + 1)])

    def time_of(offset: int) -> int | None:
        return 1_000 + offset if offset <= kept else None

    assert memory.first_divergence(time_of) == kept


def test_of_a_long_history_only_the_end_is_remembered() -> None:
    memory = loss_detection.TimestampHistory()
    for after in range(0, 300_000, 1_000):
        memory.add(after, range(after + 1, after + 1_001))
    oldest = memory.first_divergence(lambda _: None)
    assert oldest is not None
    assert 100_000 < oldest < 300_000


def test_a_hole_between_two_reads_does_not_count_as_a_difference() -> None:
    memory = loss_detection.TimestampHistory()
    memory.add(0, [1, 2])
    memory.add(10, [11, 12])
    assert memory.first_divergence(lambda offset: offset) == 12
    assert memory.first_divergence(lambda offset: offset if offset < 12 else None) == 11


def test_without_reads_no_divergence_is_found() -> None:
    assert loss_detection.TimestampHistory().first_divergence(lambda _: 1) is None
