"""What a reader remembers of a log, entry by entry or in large parts."""

import pytest

from app.store import witnessing

LENGTH = 5_000


@pytest.mark.parametrize("part", [1, 7, 300, 2_500])
@pytest.mark.parametrize("kept", [0, 1, 2_499, LENGTH - 1, LENGTH])
def test_the_entry_is_found_from_which_on_the_log_is_another(part: int, kept: int) -> None:
    memory = witnessing.Memory()
    for after in range(0, LENGTH, part):
        memory.add(after, [1_000 + at for at in range(after + 1, min(after + part, LENGTH) + 1)])

    def time_of(offset: int) -> int | None:
        return 1_000 + offset if offset <= kept else None

    assert memory.divergence(time_of) == kept


def test_of_a_long_history_only_the_end_is_remembered() -> None:
    memory = witnessing.Memory()
    for after in range(0, 300_000, 1_000):
        memory.add(after, range(after + 1, after + 1_001))
    oldest = memory.divergence(lambda _: None)
    assert oldest is not None
    assert 100_000 < oldest < 300_000


def test_a_hole_between_two_reads_is_no_difference() -> None:
    memory = witnessing.Memory()
    memory.add(0, [1, 2])
    memory.add(10, [11, 12])
    assert memory.divergence(lambda offset: offset) == 12
    assert memory.divergence(lambda offset: offset if offset < 12 else None) == 11


def test_who_has_read_nothing_knows_nothing() -> None:
    assert witnessing.Memory().divergence(lambda _: 1) is None
