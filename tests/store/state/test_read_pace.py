"""Reads of the past leave the server at least half of its time."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import pytest

from app.domain import events, model
from app.store import stores
from app.store.decisions import bitmaps, decision_log, records
from app.store.log import batches, readers
from app.store.state import followers, histories, read_pace, walks
from tests.support import declared
from tests.support.store import writers

P = ParamSpec("P")
R = TypeVar("R")
READ = 0.25
"""Seconds that a piece takes to read, as the recorded clock shows them."""
PIECES = 5
ANSWERED: dict[str, Any] = {
    "position": model.Position("i", 1),
    "verb": "filter",
    "pod": model.Pod(uid="u1", namespace="blue", name="one"),
    "configuration": "abc",
    "kept": 1,
    "outcome": "kept",
    "at": "2026-01-01T00:00:00Z",
    "milliseconds": 0.5,
}
"""Fields of a decision."""


class RecordedClock:
    """Passes only while a piece is read, and in a pause."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.paused = 0.0

    def slow(self, read: Callable[P, R]) -> Callable[P, R]:
        def slowly(*args: P.args, **options: P.kwargs) -> R:
            self.now += READ
            self.reads += 1
            return read(*args, **options)

        return slowly

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.paused += seconds


@pytest.fixture
def clock(store: stores.Store, monkeypatch: pytest.MonkeyPatch) -> RecordedClock:
    """The clock of the reads of a log that has PIECES pieces."""
    made, log = RecordedClock(), store.log
    happened: list[events.AnyEvent] = [writers.seen(f"u{number}") for number in range(PIECES * readers.CHUNK)]
    for at in range(0, len(happened), batches.MAX_EVENTS):
        log.append(batches.Batch(events=happened[at : at + batches.MAX_EVENTS]))
    monkeypatch.setattr(log, "read_past", made.slow(log.read_past))
    monkeypatch.setattr(log, "raws", made.slow(log.raws))
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


@pytest.mark.parametrize("reading", [fold, export])
def test_a_range_of_one_piece_is_read_without_a_pause(
    store: stores.Store, clock: RecordedClock, reading: Callable[[histories.Histories, int], None]
) -> None:
    reading(past_of(store, clock), readers.CHUNK)
    assert (clock.reads, clock.paused) == (1, 0.0)


@pytest.mark.parametrize("reading", [walk, search])
def test_a_few_entries_are_read_first_where_their_size_decides_about_the_next_piece(
    store: stores.Store, clock: RecordedClock, reading: Callable[[histories.Histories, int], None]
) -> None:
    reading(past_of(store, clock), readers.CHUNK)
    assert (clock.reads, clock.paused) == (2, READ)


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


PAGE = 10
"""Decision records that are read at a time."""


@pytest.fixture
def decided(store: stores.Store, monkeypatch: pytest.MonkeyPatch) -> RecordedClock:
    """The clock of the reads of decision records, of which there are PIECES pages."""
    made, record = RecordedClock(), records.Decision(candidates=bitmaps.pack((), None), count=0, **ANSWERED)
    for _ in range(PIECES * PAGE):
        store.client.xadd(store.keys.decisions, {"d": record.encoded()[0]})
    for name in ("xrange", "xrevrange"):
        monkeypatch.setattr(store.client, name, made.slow(getattr(store.client, name)))
    monkeypatch.setattr(decision_log, "_SCAN", PAGE)
    monkeypatch.setattr(decision_log, "_READ", PAGE)
    return made


def count(kept: decision_log.DecisionLog) -> int:
    return kept.search(records.DecisionQuery(), limit=PIECES * PAGE + 1).scanned


def replay(kept: decision_log.DecisionLog) -> int:
    behind, found = "0-0", 0
    while page := kept.since(behind, limit=PAGE):
        behind, found = page[-1].id, found + len(page)
    return found


def bundle(kept: decision_log.DecisionLog) -> int:
    return sum(map(len, kept.stored(0, None)))


@pytest.mark.parametrize("reading", [count, replay, bundle])
def test_the_pauses_of_many_decisions_are_as_long_as_their_reads(
    store: stores.Store, decided: RecordedClock, reading: Callable[[decision_log.DecisionLog], int]
) -> None:
    pace = read_pace.Pace(clock=lambda: decided.now, sleep=decided.sleep)
    kept = decision_log.DecisionLog(store.client, store.keys, store.follower, pace=pace)
    assert reading(kept) == PIECES * PAGE
    assert decided.reads == PIECES + 1
    assert decided.paused == PIECES * READ


def test_the_reads_of_entries_and_of_decisions_share_their_pauses(store: stores.Store) -> None:
    assert store.decisions._pace is store.histories._pace
