"""Reads of the past leave the server at least half of its time."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from app.domain import events
from app.store import stores
from app.store.log import batches, readers
from app.store.state import followers, histories, read_pace, walks
from tests.support import declared
from tests.support.store import writers

P = ParamSpec("P")
R = TypeVar("R")
READ = 0.25
"""Seconds that a piece takes to read, as the recorded clock shows them."""
PIECES = 5


class RecordedClock:
    """Passes only while a piece is read, and in a pause."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.paused = 0.0

    def read(self) -> None:
        self.now += READ
        self.reads += 1

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.paused += seconds


@pytest.fixture
def clock(store: stores.Store, monkeypatch: pytest.MonkeyPatch) -> RecordedClock:
    """The clock of the reads of a log that has PIECES pieces."""
    made, log = RecordedClock(), store.log

    def slow(read: Callable[P, R]) -> Callable[P, R]:
        def slowly(*args: P.args, **options: P.kwargs) -> R:
            made.read()
            return read(*args, **options)

        return slowly

    happened: list[events.AnyEvent] = [writers.seen(f"u{number}") for number in range(PIECES * readers.CHUNK)]
    for at in range(0, len(happened), batches.MAX_EVENTS):
        log.append(batches.Batch(events=happened[at : at + batches.MAX_EVENTS]))
    monkeypatch.setattr(log, "read_past", slow(log.read_past))
    monkeypatch.setattr(log, "raws", slow(log.raws))
    return made


def past_of(store: stores.Store, clock: RecordedClock) -> histories.Histories:
    return histories.Histories(
        store.log,
        followers.Follower(store.log, schema=declared.SCHEMA),
        pace=read_pace.Pace(clock=lambda: clock.now, sleep=clock.sleep),
    )


def fold(past: histories.Histories, last: int) -> None:
    past.at(last)


def walk(past: histories.Histories, last: int) -> None:
    """As a replay, which needs the snapshots of many offsets."""
    there = walks.Walk(past)
    for offset in range(0, last + 1, readers.CHUNK):
        there.to(offset)


def search(past: histories.Histories, last: int) -> None:
    past.entries(1, last, limit=last)


def export(past: histories.Histories, last: int) -> None:
    for _ in past.raws(1, last):
        pass


READINGS = [fold, walk, search, export]


@pytest.mark.parametrize("reading", READINGS)
def test_the_pauses_of_a_long_range_are_as_long_as_its_reads(
    store: stores.Store, clock: RecordedClock, reading: Callable[[histories.Histories, int], None]
) -> None:
    past = past_of(store, clock)
    reading(past, PIECES * readers.CHUNK)
    assert clock.reads >= PIECES
    assert clock.paused == (clock.reads - 1) * READ
    # The pause after the last piece is that before the next one, of any thread.
    past.appended_ms(1)
    assert clock.paused == (clock.reads - 1) * READ


@pytest.mark.parametrize("reading", READINGS)
def test_a_range_of_one_piece_is_read_without_a_pause(
    store: stores.Store, clock: RecordedClock, reading: Callable[[histories.Histories, int], None]
) -> None:
    reading(past_of(store, clock), readers.CHUNK)
    assert (clock.reads, clock.paused) == (1, 0.0)


def test_the_time_that_a_caller_works_on_a_piece_is_a_pause(
    store: stores.Store, clock: RecordedClock
) -> None:
    for run in past_of(store, clock).raws(1, PIECES * readers.CHUNK):
        clock.now += READ if run[0].offset > readers.CHUNK else READ / 2
    assert (clock.reads, clock.paused) == (PIECES, READ / 2)


def test_a_read_that_waited_for_the_store_is_not_waited_for_again(clock: RecordedClock) -> None:
    pace = read_pace.Pace(clock=lambda: clock.now, sleep=clock.sleep)
    with pace.piece():
        clock.now += 60.0
    with pace.piece():
        assert clock.paused == read_pace.MAX_PAUSE


def test_the_follower_reads_without_a_pause(store: stores.Store, clock: RecordedClock) -> None:
    assert past_of(store, clock).at().offset == PIECES * readers.CHUNK
    assert (clock.reads, clock.paused) == (0, 0.0)
