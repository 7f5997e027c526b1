"""The first pass over the log, which every repair waits for, takes many pages in a turn; later ones one."""

from collections.abc import Callable
from unittest import mock

import pytest

from app import settings
from app.domain import events
from app.store import raw_access
from app.store.log import batches
from tests.support.store import materialised
from tests.support.workers import audits
from workers.auditor import auditors

PAGE = 10
PAGES = 20


class Reading:
    """Counts the pages that are read; its clock advances by a tenth of a second with each of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages = 0
        self.on_page: Callable[[], None] = lambda: None
        lines = raw_access.RawReader.lines

        def read(reader: raw_access.RawReader, after: int, count: int) -> object:
            if count == PAGE:
                self.pages += 1
                self.on_page()
            return lines(reader, after, count)

        monkeypatch.setattr(raw_access.RawReader, "lines", read)

    def clock(self) -> float:
        return self.pages / 10

    def auditor(self, world: audits.World, *, interval: float) -> auditors.Auditor:
        """An auditor of another process, which has read nothing yet."""
        options = settings.Audit(interval=interval, page=PAGE, relist=False)
        store = world.another()._store
        return auditors.Auditor(store, world.cluster.client, options, monotonic=self.clock)

    def of_a_turn(self, auditor: auditors.Auditor) -> int:
        """How many pages one turn reads."""
        before = self.pages
        auditor.run_once()
        return self.pages - before


@pytest.fixture
def reading(world: audits.World, monkeypatch: pytest.MonkeyPatch) -> Reading:
    """The log has more than PAGES pages, and its view of versions is lost."""
    requests = [events.RelistRequested("nothing", "a test")] * (PAGE * PAGES)
    world.store.log.append(batches.Batch(events=requests))
    world.client.delete(world.keys.versions)
    return Reading(monkeypatch)


def test_views_are_repaired_once_the_log_was_read_for_half_of_a_few_turns(
    world: audits.World, reading: Reading
) -> None:
    auditor = reading.auditor(world, interval=1.0)
    pages, turns = 0, []
    while not (auditor.report and auditor.report.passes):
        turns.append(reading.of_a_turn(auditor))
        pages += turns[-1]
        assert pages <= 2 * PAGES, "the pass ends"
    assert set(turns[:-1]) == {5}, "half a second of a second"
    assert pages > PAGES
    assert materialised.versions(world.store) == dict(world.recorder.snapshot.versions)
    assert [reading.of_a_turn(auditor) for _ in range(3)] == [1, 1, 1]


def test_a_longer_interval_does_not_delay_the_first_pass(world: audits.World, reading: Reading) -> None:
    auditor = reading.auditor(world, interval=3600.0)
    pauses: list[float] = []

    def wait(pause: float) -> bool:
        pauses.append(pause)
        return pause > 1.0

    with mock.patch.object(auditor, "_stopped") as stopped:
        stopped.wait, stopped.is_set = wait, lambda: False
        auditor.run()
    assert auditor.report is not None
    assert auditor.report.passes == 1
    assert pauses[-1] == 3600.0
    assert set(pauses[1:-1]) == {0.5}, "the other half of each second"
    assert PAGES / 5 < len(pauses) <= 2 * PAGES / 5


def test_an_auditor_that_is_stopped_reads_no_further_page(world: audits.World, reading: Reading) -> None:
    auditor = reading.auditor(world, interval=1.0)
    reading.on_page = auditor.stop
    assert reading.of_a_turn(auditor) == 1
